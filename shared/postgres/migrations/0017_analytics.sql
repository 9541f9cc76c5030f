-- Views for the jobs of others, and the database roles that may read them (docs/data.md). The views belong to the role
-- that runs the migrations, and a reader has no rights on tables: see decision 43. A release may add views and columns,
-- but does not remove or rename them.

do $$
declare
  existing oid := to_regnamespace('analytics');
  me text := quote_ident(current_user);
begin
  if existing is null and has_database_privilege(current_database(), 'create') then
    create schema analytics;
  elsif existing is null then
    raise exception 'the role % may not create the schema analytics: let the owner of the database run `create schema analytics authorization %`', me, me;
  elsif not has_schema_privilege(existing, 'create') then
    raise exception 'the role % may not create views in the schema analytics: let its owner run `grant usage, create on schema analytics to %`', me, me;
  elsif to_regclass('analytics.messages') is not null then
    raise exception 'the schema analytics has a table or view named messages, perhaps of another Sluice: rename it, or give each Sluice a database of its own';
  end if;
end
$$;

-- The database roles of `sluice readers create`.
create table analytics_readers (
  role_name name primary key,
  -- NULL: all tenants.
  tenant_id text references tenants (tenant_id),
  created_at timestamptz not null
);

-- What the role that reads a view may see: one tenant, everything, or nothing. A role that may read this table, such as
-- the owner, sees everything.
create view analytics_scope as
select tenant_id, tenant_id is null as all_tenants
  from analytics_readers
 where role_name = current_user
union all
select null, true
 where has_table_privilege('analytics_readers'::regclass, 'select')
   and not exists (select from analytics_readers where role_name = current_user);

-- Each view has one arm for a reader of one tenant, which can use indexes on the tenant, and one for readers of all
-- tenants. The condition on analytics_scope runs once per query, and the other arm is not executed.

create view analytics.tenants with (security_barrier) as
select t.tenant_id,
       t.name,
       t.disabled_at,
       t.created_at
  from (select tenant_id, name, disabled_at, created_at from tenants where tenant_id = (select tenant_id from analytics_scope)
        union all
        select tenant_id, name, disabled_at, created_at from tenants where (select all_tenants from analytics_scope)) t;
comment on view analytics.tenants is 'The tenants that the reader may read.';
comment on column analytics.tenants.tenant_id is 'Id of the tenant. The key.';
comment on column analytics.tenants.name is 'Name of the tenant.';
comment on column analytics.tenants.disabled_at is 'When the keys of the tenant were disabled. NULL: they are enabled.';
comment on column analytics.tenants.created_at is 'When the tenant was created.';

create view analytics.agents with (security_barrier) as
select a.tenant_id,
       a.external_agent_id,
       timestamptz 'epoch' + a.start_ts_ns / 1000 * interval '1 microsecond' as start_at,
       a.start_ts_ns,
       a.lob_id,
       a.lob_name,
       a.group_id,
       a.group_name,
       a.agent_name,
       a.agent_location,
       a.supervisor_id,
       a.supervisor_name,
       a.languages,
       a.concurrency,
       a.category_label,
       a.account_access_level,
       a.ranking,
       a.vendor,
       a.job_title,
       a.job_role,
       a.work_shift,
       a.email_address,
       a.attributes,
       a.updated_at
  from (select * from agents where tenant_id = (select tenant_id from analytics_scope)
        union all
        select * from agents where (select all_tenants from analytics_scope)) a;
comment on view analytics.agents is 'Agents as they are now: the merged metadata of each.';
comment on column analytics.agents.tenant_id is 'The tenant of the row. Part of every join.';
comment on column analytics.agents.external_agent_id is 'Id of the agent in the caller''s system. With tenant_id the key.';
comment on column analytics.agents.start_at is 'startTs, cut to microseconds.';
comment on column analytics.agents.start_ts_ns is 'startTs in nanoseconds since 1970-01-01 UTC.';
comment on column analytics.agents.lob_id is 'Line of business.';
comment on column analytics.agents.lob_name is 'Name of the line of business.';
comment on column analytics.agents.group_id is 'Group.';
comment on column analytics.agents.group_name is 'Name of the group.';
comment on column analytics.agents.agent_name is 'Name of the agent.';
comment on column analytics.agents.agent_location is 'Location of the agent.';
comment on column analytics.agents.supervisor_id is 'Supervisor.';
comment on column analytics.agents.supervisor_name is 'Name of the supervisor.';
comment on column analytics.agents.languages is 'Language tags in lower case.';
comment on column analytics.agents.concurrency is 'Number of simultaneous conversations.';
comment on column analytics.agents.category_label is 'Category.';
comment on column analytics.agents.account_access_level is 'Level of account access.';
comment on column analytics.agents.ranking is 'Ranking.';
comment on column analytics.agents.vendor is 'Vendor.';
comment on column analytics.agents.job_title is 'Job title.';
comment on column analytics.agents.job_role is 'Job role.';
comment on column analytics.agents.work_shift is 'Work shift.';
comment on column analytics.agents.email_address is 'E-mail address.';
comment on column analytics.agents.attributes is 'Further attributes, an array of objects with name and value.';
comment on column analytics.agents.updated_at is 'When a record last changed the row.';

create view analytics.agent_history with (security_barrier) as
select h.tenant_id,
       h.external_agent_id,
       h.accepted_at,
       h.event_id,
       h.request_id,
       h.patch,
       h.stored_at,
       h.generation as log_generation,
       h.partition as log_partition,
       h."offset" as log_offset
  from (select * from agent_records where tenant_id = (select tenant_id from analytics_scope)
        union all
        select * from agent_records where (select all_tenants from analytics_scope)) h;
comment on view analytics.agent_history is 'Every accepted record of an agent, for values as they were at a time.';
comment on column analytics.agent_history.tenant_id is 'The tenant of the row. Part of every join.';
comment on column analytics.agent_history.external_agent_id is 'Id of the agent in the caller''s system.';
comment on column analytics.agent_history.accepted_at is 'When the gateway accepted the record.';
comment on column analytics.agent_history.event_id is 'Id of the record.';
comment on column analytics.agent_history.request_id is 'Id of the request that sent the record.';
comment on column analytics.agent_history.patch is 'The members that were sent. An omitted member left the value unchanged, null cleared it.';
comment on column analytics.agent_history.stored_at is 'When a worker stored the row.';
comment on column analytics.agent_history.log_generation is 'Generation of the topic in which the record was read first.';
comment on column analytics.agent_history.log_partition is 'Partition of the topic in which the record was read first.';
comment on column analytics.agent_history.log_offset is 'Offset in that partition. Generation and offset order the records of one agent or conversation.';

create view analytics.conversations with (security_barrier) as
select c.tenant_id,
       c.external_conversation_id,
       c.lob_id,
       c.lob_name,
       c.group_id,
       c.group_name,
       c.agent_routing_code,
       c.campaign,
       c.device_type,
       c.platform,
       c.company_segment,
       c.company_subdivision,
       c.business_rule,
       c.entry_type,
       c.operating_system,
       c.browser_type,
       c.browser_version,
       c.attributes,
       c.updated_at
  from (select * from conversations where tenant_id = (select tenant_id from analytics_scope)
        union all
        select * from conversations where (select all_tenants from analytics_scope)) c;
comment on view analytics.conversations is 'Conversations as they are now: the merged metadata of each.';
comment on column analytics.conversations.tenant_id is 'The tenant of the row. Part of every join.';
comment on column analytics.conversations.external_conversation_id is 'Id of the conversation in the caller''s system. With tenant_id the key.';
comment on column analytics.conversations.lob_id is 'Line of business.';
comment on column analytics.conversations.lob_name is 'Name of the line of business.';
comment on column analytics.conversations.group_id is 'Group of the agent.';
comment on column analytics.conversations.group_name is 'Name of the group.';
comment on column analytics.conversations.agent_routing_code is 'Routing attribute of the agent.';
comment on column analytics.conversations.campaign is 'Campaign.';
comment on column analytics.conversations.device_type is 'Device of the customer: TABLET, PHONE, DESKTOP, WATCH or OTHER.';
comment on column analytics.conversations.platform is 'Platform of the customer, such as WEB, IOS or VOICE.';
comment on column analytics.conversations.company_segment is 'Company segments. A conversation can have several.';
comment on column analytics.conversations.company_subdivision is 'Company subdivision.';
comment on column analytics.conversations.business_rule is 'Business rule.';
comment on column analytics.conversations.entry_type is 'How the issue was created.';
comment on column analytics.conversations.operating_system is 'Operating system of the customer.';
comment on column analytics.conversations.browser_type is 'Browser.';
comment on column analytics.conversations.browser_version is 'Version of the browser.';
comment on column analytics.conversations.attributes is 'Further attributes, an array of objects with name and value.';
comment on column analytics.conversations.updated_at is 'When a record last changed the row.';

create view analytics.conversation_history with (security_barrier) as
select h.tenant_id,
       h.external_conversation_id,
       h.accepted_at,
       h.event_id,
       h.request_id,
       h.patch,
       h.stored_at,
       h.generation as log_generation,
       h.partition as log_partition,
       h."offset" as log_offset
  from (select * from conversation_records where tenant_id = (select tenant_id from analytics_scope)
        union all
        select * from conversation_records where (select all_tenants from analytics_scope)) h;
comment on view analytics.conversation_history is 'Every accepted record of a conversation, for values as they were at a time.';
comment on column analytics.conversation_history.tenant_id is 'The tenant of the row. Part of every join.';
comment on column analytics.conversation_history.external_conversation_id is 'Id of the conversation in the caller''s system.';
comment on column analytics.conversation_history.accepted_at is 'When the gateway accepted the record.';
comment on column analytics.conversation_history.event_id is 'Id of the record.';
comment on column analytics.conversation_history.request_id is 'Id of the request that sent the record.';
comment on column analytics.conversation_history.patch is 'The members that were sent. An omitted member left the value unchanged, null cleared it.';
comment on column analytics.conversation_history.stored_at is 'When a worker stored the row.';
comment on column analytics.conversation_history.log_generation is 'Generation of the topic in which the record was read first.';
comment on column analytics.conversation_history.log_partition is 'Partition of the topic in which the record was read first.';
comment on column analytics.conversation_history.log_offset is 'Offset in that partition. Generation and offset order the records of one agent or conversation.';

-- The events are grouped first, because there are far fewer pairs to sort.
create view analytics.conversation_ids with (security_barrier) as
select distinct on (tenant_id, conversation_id) tenant_id, conversation_id, external_conversation_id, reported_at
  from (select tenant_id, conversation_id, external_conversation_id, max(accepted_at) as reported_at
          from (select tenant_id, conversation_id, external_conversation_id, accepted_at 
                  from automation_events
                 where tenant_id = (select tenant_id from analytics_scope)
                union all
                select tenant_id, conversation_id, external_conversation_id, accepted_at 
                  from automation_events
                 where (select all_tenants from analytics_scope)
                union all
                select tenant_id, conversation_id, external_conversation_id, accepted_at 
                  from message_sent
                 where tenant_id = (select tenant_id from analytics_scope)
                   and external_conversation_id is not null and conversation_id <> ''
                union all
                select tenant_id, conversation_id, external_conversation_id, accepted_at 
                  from message_sent
                 where (select all_tenants from analytics_scope)
                   and external_conversation_id is not null and conversation_id <> '') event
         group by tenant_id, conversation_id, external_conversation_id) pair
 order by tenant_id, conversation_id, reported_at desc, external_conversation_id;
comment on view analytics.conversation_ids is 'Which external conversation a conversation_id belongs to, as reported by automation events and by messages with both ids.';
comment on column analytics.conversation_ids.tenant_id is 'The tenant of the row. Part of every join.';
comment on column analytics.conversation_ids.conversation_id is 'The service''s id of the conversation. With tenant_id the key.';
comment on column analytics.conversation_ids.external_conversation_id is 'Id of the conversation in the caller''s system. If several were reported, the last one.';
comment on column analytics.conversation_ids.reported_at is 'When the pair was last accepted.';

create view analytics.messages with (security_barrier) as
select m.tenant_id,
       m.message_id,
       coalesce(timestamptz 'epoch' + m.occurred_at_ns / 1000 * interval '1 microsecond', m.accepted_at) as occurred_at,
       m.occurred_at_ns,
       m.accepted_at,
       nullif(m.conversation_id, '') as conversation_id,
       coalesce(m.external_conversation_id, i.external_conversation_id, c.external_conversation_id) as external_conversation_id,
       c.lob_id,
       c.lob_name,
       c.group_id,
       c.group_name,
       c.campaign,
       c.platform,
       c.device_type,
       c.company_segment,
       m.augmentation_type,
       case when m.omitted & 1 = 0 or m.omitted is null and m.num_edits <> 0 then m.num_edits end as num_edits,
       nullif(m.initial_suggestions_id, '') as initial_suggestions_id,
       nullif(m.selected_suggestions_id, '') as selected_suggestions_id,
       case when m.omitted & 4 = 0 or m.omitted is null and m.selected_suggestion_index <> 0 then m.selected_suggestion_index end as selected_suggestion_index,
       nullif(m.selected_suggestion_text, '') as selected_suggestion_text,
       case when m.omitted & 2 = 0 or m.omitted is null and m.phrase_autocomplete_presented_ct <> 0 then m.phrase_autocomplete_presented_ct end as phrase_autocomplete_presented_ct,
       case when m.omitted & 64 = 0 or m.omitted is null and m.phrase_autocomplete_selected_ct <> 0 then m.phrase_autocomplete_selected_ct end as phrase_autocomplete_selected_ct,
       case when m.omitted & 8 = 0 or m.omitted is null and m.time_to_action <> 0 then m.time_to_action end as time_to_action,
       case when m.omitted & 16 = 0 or m.omitted is null and m.crafting_time <> 0 then m.crafting_time end as crafting_time,
       case when m.omitted & 32 = 0 or m.omitted is null and m.dwell_time <> 0 then m.dwell_time end as dwell_time,
       m.omitted is not null as omitted_known,
       m.gaps,
       m.request_id,
       m.stored_at,
       m.generation as log_generation,
       m.partition as log_partition,
       m."offset" as log_offset
  from (select * from message_sent where tenant_id = (select tenant_id from analytics_scope)
        union all
        select * from message_sent where (select all_tenants from analytics_scope)) m
  left join analytics.conversation_ids i
    on i.tenant_id = m.tenant_id and i.conversation_id = m.conversation_id
  left join conversations c
    on c.tenant_id = m.tenant_id
   and c.external_conversation_id
       = coalesce(m.external_conversation_id, i.external_conversation_id, nullif(m.conversation_id, ''));
comment on view analytics.messages is 'MessageSent events, with their conversation as it is now.';
comment on column analytics.messages.tenant_id is 'The tenant of the row. Part of every join.';
comment on column analytics.messages.message_id is 'Id of the message. An id is stored once within 30 days.';
comment on column analytics.messages.occurred_at is 'Time of the message: occurredAt, cut to microseconds, or accepted_at if it was not sent.';
comment on column analytics.messages.occurred_at_ns is 'occurredAt in nanoseconds since 1970-01-01 UTC. NULL if it was not sent.';
comment on column analytics.messages.accepted_at is 'When the gateway accepted the record.';
comment on column analytics.messages.conversation_id is 'The service''s id of the conversation. NULL if it was not sent.';
comment on column analytics.messages.external_conversation_id is 'Id of the conversation in the caller''s system: as sent with the message, else from conversation_ids, else the conversation_id if a conversation has that external id.';
comment on column analytics.messages.lob_id is 'Line of business of the conversation as it is now.';
comment on column analytics.messages.lob_name is 'Name of the line of business.';
comment on column analytics.messages.group_id is 'Group of the agent, from the conversation as it is now.';
comment on column analytics.messages.group_name is 'Name of the group.';
comment on column analytics.messages.campaign is 'Campaign of the conversation as it is now.';
comment on column analytics.messages.platform is 'Platform of the conversation as it is now.';
comment on column analytics.messages.device_type is 'Device type of the conversation as it is now.';
comment on column analytics.messages.company_segment is 'Company segments of the conversation as it is now.';
comment on column analytics.messages.augmentation_type is 'Features used, in order. Repeated uses are kept.';
comment on column analytics.messages.num_edits is 'Keystrokes after a suggestion was selected; 0: sent unedited. NULL if it was not sent.';
comment on column analytics.messages.initial_suggestions_id is 'Id of the first set of suggestions that the agent saw. NULL if it was not sent.';
comment on column analytics.messages.selected_suggestions_id is 'Id of the set of the suggestion that was used. NULL if it was not sent.';
comment on column analytics.messages.selected_suggestion_index is 'Position of the suggestion in its set, from 1. NULL if it was not sent.';
comment on column analytics.messages.selected_suggestion_text is 'Text of the suggestion that was used. NULL if it was not sent.';
comment on column analytics.messages.phrase_autocomplete_presented_ct is 'Number of phrase completions that were shown. NULL if it was not sent.';
comment on column analytics.messages.phrase_autocomplete_selected_ct is 'Number of phrase completions that were used. NULL if it was not sent.';
comment on column analytics.messages.time_to_action is 'Seconds from the agent''s previous message to the first action. NULL if it was not sent.';
comment on column analytics.messages.crafting_time is 'Seconds from the first to the last action. NULL if it was not sent.';
comment on column analytics.messages.dwell_time is 'Seconds from the last action until the message was sent. NULL if it was not sent.';
comment on column analytics.messages.omitted_known is 'Whether it is known which numbers were sent. If false (rows of earlier releases), a number that is stored as 0 is NULL here.';
comment on column analytics.messages.gaps is 'Members that the used features call for, but that were not sent.';
comment on column analytics.messages.request_id is 'Id of the request that sent the record.';
comment on column analytics.messages.stored_at is 'When a worker stored the row.';
comment on column analytics.messages.log_generation is 'Generation of the topic in which the record was read first.';
comment on column analytics.messages.log_partition is 'Partition of the topic in which the record was read first.';
comment on column analytics.messages.log_offset is 'Offset in that partition. Generation and offset order the records of one agent or conversation.';

create view analytics.automation_events with (security_barrier) as
select e.tenant_id,
       e.event_id,
       timestamptz 'epoch' + e.occurred_at_ns / 1000 * interval '1 microsecond' as occurred_at,
       e.occurred_at_ns,
       e.accepted_at,
       e.external_conversation_id,
       e.conversation_id,
       e.type,
       e.current_task_name,
       e.input_variables,
       e.reply_message_id,
       e.reply_text,
       e.transfer_reference_variables,
       e.transfer_variables,
       e.transfer_task_name,
       e.request_id,
       e.stored_at,
       e.generation as log_generation,
       e.partition as log_partition,
       e."offset" as log_offset
  from (select * from automation_events where tenant_id = (select tenant_id from analytics_scope)
        union all
        select * from automation_events where (select all_tenants from analytics_scope)) e;
comment on view analytics.automation_events is 'Events of the automated agent.';
comment on column analytics.automation_events.tenant_id is 'The tenant of the row. Part of every join.';
comment on column analytics.automation_events.event_id is 'Id of the event. An id is stored once within 30 days.';
comment on column analytics.automation_events.occurred_at is 'occurredAt, cut to microseconds.';
comment on column analytics.automation_events.occurred_at_ns is 'occurredAt in nanoseconds since 1970-01-01 UTC.';
comment on column analytics.automation_events.accepted_at is 'When the gateway accepted the record.';
comment on column analytics.automation_events.external_conversation_id is 'Id of the conversation in the caller''s system.';
comment on column analytics.automation_events.conversation_id is 'The service''s id of the conversation.';
comment on column analytics.automation_events.type is 'processingStart, reply, processingEnd, confirmationRequired, authenticationRequired, transferToAgent or transferToSystem.';
comment on column analytics.automation_events.current_task_name is 'Task that the automated agent executes.';
comment on column analytics.automation_events.input_variables is 'JSON text of the input variables, as sent.';
comment on column analytics.automation_events.reply_message_id is 'Id of the reply.';
comment on column analytics.automation_events.reply_text is 'Text of the reply.';
comment on column analytics.automation_events.transfer_reference_variables is 'JSON text of the reference variables of a transfer, as sent.';
comment on column analytics.automation_events.transfer_variables is 'JSON text of the variables of a transfer, as sent.';
comment on column analytics.automation_events.transfer_task_name is 'Task that is named by a transfer.';
comment on column analytics.automation_events.request_id is 'Id of the request that sent the record.';
comment on column analytics.automation_events.stored_at is 'When a worker stored the row.';
comment on column analytics.automation_events.log_generation is 'Generation of the topic in which the record was read first.';
comment on column analytics.automation_events.log_partition is 'Partition of the topic in which the record was read first.';
comment on column analytics.automation_events.log_offset is 'Offset in that partition. Generation and offset order the records of one agent or conversation.';

create view analytics.automation_states with (security_barrier) as
select s.tenant_id,
       s.external_conversation_id,
       s.conversation_id,
       s.state,
       s.last_automation_agent_message_id,
       s.current_task_name,
       s.input_variables,
       s.updated_at
  from (select * from conversation_states where tenant_id = (select tenant_id from analytics_scope)
        union all
        select * from conversation_states where (select all_tenants from analytics_scope)) s;
comment on view analytics.automation_states is 'The state of the automated agent in each conversation as it is now.';
comment on column analytics.automation_states.tenant_id is 'The tenant of the row. Part of every join.';
comment on column analytics.automation_states.external_conversation_id is 'Id of the conversation in the caller''s system. With tenant_id the key.';
comment on column analytics.automation_states.conversation_id is 'The service''s id of the conversation, as in its newest event.';
comment on column analytics.automation_states.state is 'ready, processing, waitingForConfirmation, waitingForAuth, transferredToAgent or transferredToSystem. NULL: no event has set one.';
comment on column analytics.automation_states.last_automation_agent_message_id is 'Id of the last reply.';
comment on column analytics.automation_states.current_task_name is 'Task that was reported last.';
comment on column analytics.automation_states.input_variables is 'JSON text of the input variables that were reported last.';
comment on column analytics.automation_states.updated_at is 'When a record last changed the row.';

create view analytics.credential_submissions with (security_barrier) as
select s.tenant_id,
       s.event_id,
       s.conversation_id,
       s.customer_external_id,
       s.stream_id,
       s.ciphertext is null as erased,
       s.expires_at,
       s.accepted_at,
       s.request_id,
       s.stored_at,
       s.generation as log_generation,
       s.partition as log_partition,
       s."offset" as log_offset
  from (select * from credentials where tenant_id = (select tenant_id from analytics_scope)
        union all
        select * from credentials where (select all_tenants from analytics_scope)) s;
comment on view analytics.credential_submissions is 'Submissions of credentials, without the credentials.';
comment on column analytics.credential_submissions.tenant_id is 'The tenant of the row. Part of every join.';
comment on column analytics.credential_submissions.event_id is 'Id of the submission. With tenant_id and conversation_id the key.';
comment on column analytics.credential_submissions.conversation_id is 'The service''s id of the conversation.';
comment on column analytics.credential_submissions.customer_external_id is 'Id of the customer in the caller''s system.';
comment on column analytics.credential_submissions.stream_id is 'Connection to which responses are sent.';
comment on column analytics.credential_submissions.erased is 'Whether the encrypted credentials have been erased, by their expiry or on request.';
comment on column analytics.credential_submissions.expires_at is 'When the encrypted credentials are erased.';
comment on column analytics.credential_submissions.accepted_at is 'When the gateway accepted the record.';
comment on column analytics.credential_submissions.request_id is 'Id of the request that sent the record.';
comment on column analytics.credential_submissions.stored_at is 'When a worker stored the row.';
comment on column analytics.credential_submissions.log_generation is 'Generation of the topic in which the record was read first.';
comment on column analytics.credential_submissions.log_partition is 'Partition of the topic in which the record was read first.';
comment on column analytics.credential_submissions.log_offset is 'Offset in that partition. Generation and offset order the records of one agent or conversation.';

create view analytics.dead_letters with (security_barrier) as
select d.tenant_id,
       d.kind,
       d.record_id,
       d.entity,
       d.reason,
       d.stage,
       d.error,
       d.state,
       d.state_at,
       d.bytes,
       d.accepted_at,
       d.failed_at,
       d.expires_at,
       d.topic,
       d.generation as log_generation,
       d.partition as log_partition,
       d."offset" as log_offset
  from (select tenant_id, kind, record_id, entity, reason, stage, error, state, state_at, bytes, accepted_at, failed_at,
                     expires_at, topic, generation, partition, "offset" from dead_letters where tenant_id = (select tenant_id from analytics_scope)
        union all
        select tenant_id, kind, record_id, entity, reason, stage, error, state, state_at, bytes, accepted_at, failed_at,
                     expires_at, topic, generation, partition, "offset" from dead_letters where (select all_tenants from analytics_scope)) d;
comment on view analytics.dead_letters is 'Records that could not be stored, without their content.';
comment on column analytics.dead_letters.tenant_id is 'The tenant of the record; empty if it has none that is valid.';
comment on column analytics.dead_letters.kind is 'Kind of the record, such as message-sent.';
comment on column analytics.dead_letters.record_id is 'Id of the record; empty if it has none that is valid.';
comment on column analytics.dead_letters.entity is 'Agent, conversation or message of the record; empty if it has none that is valid.';
comment on column analytics.dead_letters.reason is 'Why the record could not be stored, such as conflict or undecodable.';
comment on column analytics.dead_letters.stage is 'Stage at which it failed.';
comment on column analytics.dead_letters.error is 'Text of the error.';
comment on column analytics.dead_letters.state is 'open, replaying, replayed or dropped.';
comment on column analytics.dead_letters.state_at is 'When the state was set.';
comment on column analytics.dead_letters.bytes is 'Approximate size of the stored record.';
comment on column analytics.dead_letters.accepted_at is 'When the gateway accepted the record.';
comment on column analytics.dead_letters.failed_at is 'When the record failed.';
comment on column analytics.dead_letters.expires_at is 'When the row is deleted.';
comment on column analytics.dead_letters.topic is 'Topic of the log. With the position the key.';
comment on column analytics.dead_letters.log_generation is 'Generation of the topic in which the record was read first.';
comment on column analytics.dead_letters.log_partition is 'Partition of the topic in which the record was read first.';
comment on column analytics.dead_letters.log_offset is 'Offset in that partition. Generation and offset order the records of one agent or conversation.';
