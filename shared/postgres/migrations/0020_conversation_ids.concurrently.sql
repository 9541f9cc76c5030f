-- Returns the statements that build the new index. An index that an interrupted run left invalid is built again.
select step.statement
  from (select to_regclass('conversation_states_by_conversation') as index) as found
  left join pg_index i on i.indexrelid = found.index
 cross join lateral (
    values (1, 'drop index concurrently conversation_states_by_conversation', i.indisvalid is false),
           (2, 'create index concurrently conversation_states_by_conversation on conversation_states (tenant_id, conversation_id) include (external_conversation_id)',
               i.indisvalid is not true)
  ) as step (place, statement, is_needed)
 where step.is_needed
 order by step.place;
