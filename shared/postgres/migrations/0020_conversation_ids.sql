-- How reports on messages find the conversation of a message that has only its conversation_id: in conversation_states,
-- which has the last conversation_id of each conversation, and here.

-- Pairs of ids in automation events that are not in conversation_states, because a later event of the conversation has
-- another conversation_id, and pairs in messages with both ids.
create table conversation_id_pairs (
  tenant_id text not null,
  conversation_id text not null,
  external_conversation_id text not null,
  reported_at timestamptz not null,
  primary key (tenant_id, conversation_id, external_conversation_id)
);

insert into conversation_id_pairs (tenant_id, conversation_id, external_conversation_id, reported_at)
select tenant_id, conversation_id, external_conversation_id, max(reported_at)
  from (select e.tenant_id, e.conversation_id, e.external_conversation_id, max(e.accepted_at) as reported_at
          from automation_events e
         where not exists (select from conversation_states s
                            where s.tenant_id = e.tenant_id and s.external_conversation_id = e.external_conversation_id
                              and s.conversation_id = e.conversation_id)
         group by 1, 2, 3
         union all
        select tenant_id, conversation_id, external_conversation_id, max(quarter_hour)
          from message_sent_conversations
         where conversation_id <> '' and external_conversation_id <> ''
         group by 1, 2, 3) as found
 group by 1, 2, 3;

-- 0020_conversation_ids.concurrently.sql has built this index before, while the table was in use. `if not exists` would
-- lock the table all the same.
do $$
declare
  is_valid boolean;
begin
  select indisvalid into is_valid from pg_index where indexrelid = to_regclass('conversation_states_by_conversation');
  if is_valid is false then
    drop index conversation_states_by_conversation;
  end if;
  if is_valid is not true then
    create index conversation_states_by_conversation on conversation_states (tenant_id, conversation_id)
      include (external_conversation_id);
  end if;
end
$$;

-- A state is updated with every event. With room on its page, the update does not touch the indexes.
alter table conversation_states set (fillfactor = 80);
