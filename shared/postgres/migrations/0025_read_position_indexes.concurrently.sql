-- Returns the statements that build the new indexes of the tables and partitions that have rows. An index that an
-- interrupted run left invalid is built again.
select statement
  from (
    select c.relname, i.indisvalid, c.relname || '_by_read' as index
      from (select inhrelid as oid
              from pg_inherits
             where inhparent in ('agent_records'::regclass, 'conversation_records'::regclass, 'message_sent'::regclass,
                                 'automation_events'::regclass)
             union all
            select 'credentials'::regclass::oid) as wanted
      join pg_class c using (oid)
      left join pg_index i on i.indrelid = c.oid and i.indexrelid = to_regclass(quote_ident(c.relname || '_by_read'))
     where pg_relation_size(c.oid) > 0
  ) as part
 cross join lateral (
    values (1, format('drop index concurrently %I', part.index), part.indisvalid is false),
           (2, format('create index concurrently %I on %I (coalesce(read_partition, partition), coalesce(read_generation, generation), coalesce(read_offset, "offset"))',
                      part.index, part.relname),
               part.indisvalid is not true)
  ) as step (place, statement, is_needed)
 where step.is_needed
 order by part.relname, step.place;
