-- Returns the statements that build the new indexes. An index that an interrupted run left invalid is built again.
select statement
  from (values ('conversation_states', 'conversation_states_by_conversation',
                '(tenant_id, conversation_id) include (external_conversation_id)'),
               ('message_sent_conversations', 'message_sent_conversations_with_both_ids',
                '(tenant_id, conversation_id, external_conversation_id) where conversation_id <> '''' and external_conversation_id <> '''''))
         as wanted (parent, name, definition)
  left join pg_index i on i.indexrelid = to_regclass(wanted.name)
 cross join lateral (
    values (1, format('drop index concurrently %I', wanted.name), i.indisvalid is false),
           (2, format('create index concurrently %I on %I %s', wanted.name, wanted.parent, wanted.definition),
               i.indisvalid is not true)
  ) as step (place, statement, is_needed)
 where step.is_needed
 order by wanted.name, step.place;
