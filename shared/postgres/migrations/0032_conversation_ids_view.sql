-- The view took the pairs of ids from all automation events and messages, so a query of one day of messages read all of
-- them. Workers keep the pairs: those of events at once, and those of messages with their counts, within a minute or so.
create or replace view analytics.conversation_ids with (security_barrier) as
select distinct on (tenant_id, conversation_id) tenant_id, conversation_id, external_conversation_id, reported_at
  from (select tenant_id, conversation_id, external_conversation_id, updated_at as reported_at
          from conversation_states
         where tenant_id = (select tenant_id from analytics_scope)
        union all
        select tenant_id, conversation_id, external_conversation_id, updated_at
          from conversation_states
         where (select all_tenants from analytics_scope)
        union all
        select tenant_id, conversation_id, external_conversation_id, reported_at
          from conversation_id_pairs
         where tenant_id = (select tenant_id from analytics_scope)
        union all
        select tenant_id, conversation_id, external_conversation_id, reported_at
          from conversation_id_pairs
         where (select all_tenants from analytics_scope)) pair
 order by tenant_id, conversation_id, reported_at desc, external_conversation_id;
comment on column analytics.conversation_ids.reported_at is 'When the pair was last reported: the time of the event, or the start of the quarter-hour of the message.';
