-- How reports on messages find the conversation of a message that has only its conversation_id: in conversation_states,
-- which has the last conversation_id of each conversation, here, and in messages that have both ids.

-- Pairs of ids in automation events that are not in conversation_states, because a later event of the conversation has
-- another conversation_id.
create table earlier_conversation_ids (
  tenant_id text not null,
  conversation_id text not null,
  external_conversation_id text not null,
  reported_at timestamptz not null,
  primary key (tenant_id, conversation_id, external_conversation_id)
);

insert into earlier_conversation_ids (tenant_id, conversation_id, external_conversation_id, reported_at)
select e.tenant_id, e.conversation_id, e.external_conversation_id, max(e.accepted_at)
  from automation_events e
 where not exists (select from conversation_states s
                    where s.tenant_id = e.tenant_id and s.external_conversation_id = e.external_conversation_id
                      and s.conversation_id = e.conversation_id)
 group by 1, 2, 3;

-- 0020_conversation_ids.concurrently.sql has built these before, while the tables were in use. `if not exists` would lock
-- the tables all the same.
do $$
declare
  wanted record;
begin
  for wanted in
    select name, format('create index %I on %I %s', name, parent, definition) as statement
      from (values ('conversation_states', 'conversation_states_by_conversation',
                    '(tenant_id, conversation_id) include (external_conversation_id)'),
                   ('message_sent_conversations', 'message_sent_conversations_with_both_ids',
                    '(tenant_id, conversation_id, external_conversation_id) where conversation_id <> '''' and external_conversation_id <> '''''))
             as wanted (parent, name, definition)
      left join pg_index i on i.indexrelid = to_regclass(name)
     where i.indisvalid is not true
  loop
    if to_regclass(wanted.name) is not null then
      execute format('drop index %I', wanted.name);
    end if;
    execute wanted.statement;
  end loop;
end
$$;

-- A state is updated with every event. With room on its page, the update does not touch the indexes.
alter table conversation_states set (fillfactor = 80);
