-- Returns the statements that build the new indexes of dead letters, if there are any. An index that an interrupted run left
-- invalid is built again.
select step.statement
  from (values ('dead_letters_by_tenant', '(tenant_id, failed_at desc, topic, generation, partition, "offset")'),
               ('dead_letters_unsettled',
                '(tenant_id, topic, generation, partition, "offset") where state in (''open'', ''replaying'')'))
         as wanted (index, definition)
  left join pg_index i on i.indexrelid = to_regclass(wanted.index)
 cross join lateral (
    values (1, format('drop index concurrently %I', wanted.index), i.indisvalid is false),
           (2, format('create index concurrently %I on dead_letters %s', wanted.index, wanted.definition),
               i.indisvalid is not true and pg_relation_size('dead_letters') > 0)
  ) as step (place, statement, is_needed)
 where step.is_needed
 order by wanted.index, step.place;
