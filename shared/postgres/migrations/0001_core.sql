-- Tenants, their keys, the bookkeeping of the log, and the tables of the five kinds of records.
--
-- Small tables that do not begin with tenant_id hold rows that are unique over all tenants (api_keys) or belong to none
-- (log_topics, log_positions). Append-only tables are partitioned by week of accepted_at; the workers create the
-- partitions ahead (see time-partitions.ts). Times come from the code, never from the database.

create table schema_compatibility (
  only_row boolean primary key default true check (only_row),
  min_compatible_version integer not null
);
insert into schema_compatibility (min_compatible_version) values (1);

create table tenants (
  tenant_id text primary key,
  name text not null unique,
  -- Requests per second. NULL: the product's default.
  request_rate integer check (request_rate > 0),
  unlimited boolean not null default false,
  disabled_at timestamptz,
  created_at timestamptz not null,
  check (not (unlimited and request_rate is not null))
);

create table api_keys (
  api_key_id text primary key,
  tenant_id text not null references tenants (tenant_id),
  secret_sha256 bytea not null,
  -- '*' is every scope.
  scopes text[] not null,
  request_rate integer check (request_rate > 0),
  expires_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz not null
);
create index api_keys_by_tenant on api_keys (tenant_id);

-- The layout of each topic. A command raises the generation when partitions change or another log is accepted.
create table log_topics (
  topic text primary key,
  generation integer not null,
  partitions integer not null,
  tenant_partitions integer not null,
  created_at timestamptz not null
);

-- The position up to which each partition is stored. A batch's transaction locks the row first, so that only one of two
-- workers that believe they own a partition can write its records.
create table log_positions (
  topic text not null,
  partition integer not null,
  generation integer not null,
  next_offset bigint not null,
  -- Fingerprint of the record at next_offset - 1, which detects a log that was restored or recreated. NULL: none was
  -- read yet.
  last_id text,
  -- Starts of the partition since the last commit, and the offset up to which its records are then stored one at a
  -- time.
  starts integer not null default 0,
  suspect_end bigint,
  alone_offset bigint,
  alone_starts integer not null default 0,
  updated_at timestamptz not null,
  primary key (topic, partition)
);

-- The result of each id: the only table that makes a record unique.
create table event_keys (
  tenant_id text not null,
  kind text not null,
  key text not null,
  -- SHA-256 of the content; NULL if the gateway generated the id for a kind without content hashes.
  content_hash bytea,
  status text not null check (status in ('stored', 'dead-lettered')),
  conflicts integer not null default 0,
  error text,
  generation integer not null,
  partition integer not null,
  "offset" bigint not null,
  accepted_at timestamptz not null,
  stored_at timestamptz not null,
  updated_at timestamptz not null,
  expires_at timestamptz not null,
  primary key (tenant_id, kind, key)
) partition by hash (key);

do $$
begin
  for i in 0..15 loop
    execute format('create table event_keys_%s partition of event_keys for values with (modulus 16, remainder %s)',
                   lpad(i::text, 2, '0'), i);
    execute format('create index event_keys_%s_by_expiry on event_keys_%s using brin (expires_at) with (autosummarize = on)',
                   lpad(i::text, 2, '0'), lpad(i::text, 2, '0'));
  end loop;
end
$$;

create table agents (
  tenant_id text not null,
  external_agent_id text not null,
  -- Nanoseconds since the epoch.
  start_ts_ns bigint,
  lob_id text,
  lob_name text,
  group_id text,
  group_name text,
  agent_name text,
  agent_location text,
  supervisor_id text,
  supervisor_name text,
  languages text[],
  concurrency integer,
  category_label text,
  account_access_level text,
  ranking integer,
  vendor text,
  job_title text,
  job_role text,
  work_shift text,
  email_address text,
  attributes json,
  -- Position of the newest record in the entity's order, then of the record that was read last (a replay is read late).
  generation integer not null,
  "offset" bigint not null,
  read_generation integer not null,
  read_partition integer not null,
  read_offset bigint not null,
  updated_at timestamptz not null,
  primary key (tenant_id, external_agent_id)
);

create table agent_records (
  tenant_id text not null,
  external_agent_id text not null,
  accepted_at timestamptz not null,
  generation integer not null,
  partition integer not null,
  "offset" bigint not null,
  event_id text not null,
  request_id text not null,
  -- The merge patch as accepted: an omitted member leaves the column unchanged, null clears it.
  patch json not null,
  stored_at timestamptz not null,
  primary key (tenant_id, external_agent_id, accepted_at, generation, "offset")
) partition by range (accepted_at);

create table conversations (
  tenant_id text not null,
  external_conversation_id text not null,
  lob_id text,
  lob_name text,
  group_id text,
  group_name text,
  agent_routing_code text,
  campaign text,
  device_type text,
  platform text,
  company_segment text[],
  company_subdivision text,
  business_rule text,
  entry_type text,
  operating_system text,
  browser_type text,
  browser_version text,
  attributes json,
  generation integer not null,
  "offset" bigint not null,
  read_generation integer not null,
  read_partition integer not null,
  read_offset bigint not null,
  updated_at timestamptz not null,
  primary key (tenant_id, external_conversation_id)
);

create table conversation_records (
  tenant_id text not null,
  external_conversation_id text not null,
  accepted_at timestamptz not null,
  generation integer not null,
  partition integer not null,
  "offset" bigint not null,
  event_id text not null,
  request_id text not null,
  patch json not null,
  stored_at timestamptz not null,
  primary key (tenant_id, external_conversation_id, accepted_at, generation, "offset")
) partition by range (accepted_at);

create table credentials (
  tenant_id text not null,
  conversation_id text not null,
  event_id text not null,
  customer_external_id text not null,
  stream_id text,
  -- AES-256-GCM under the key ring's key key_id; NULL once expired or erased.
  key_id text not null,
  ciphertext bytea,
  accepted_at timestamptz not null,
  expires_at timestamptz not null,
  generation integer not null,
  partition integer not null,
  "offset" bigint not null,
  request_id text not null,
  stored_at timestamptz not null,
  primary key (tenant_id, conversation_id, event_id)
);
create index credentials_to_erase on credentials (expires_at) where ciphertext is not null;

create table message_sent (
  tenant_id text not null,
  message_id text not null,
  accepted_at timestamptz not null,
  conversation_id text not null,
  augmentation_type text[] not null,
  num_edits integer not null,
  initial_suggestions_id text not null,
  phrase_autocomplete_presented_ct integer not null,
  selected_suggestion_text text not null,
  selected_suggestions_id text not null,
  selected_suggestion_index integer not null,
  time_to_action double precision not null,
  crafting_time double precision not null,
  dwell_time double precision not null,
  phrase_autocomplete_selected_ct integer not null,
  -- Names of the members that the features used call for, but that were not sent (data quality).
  gaps text[] not null,
  generation integer not null,
  partition integer not null,
  "offset" bigint not null,
  request_id text not null,
  stored_at timestamptz not null,
  primary key (tenant_id, accepted_at, message_id)
) partition by range (accepted_at);

create table automation_events (
  tenant_id text not null,
  external_conversation_id text not null,
  accepted_at timestamptz not null,
  generation integer not null,
  partition integer not null,
  "offset" bigint not null,
  event_id text not null,
  conversation_id text not null,
  type text not null,
  -- Nanoseconds since the epoch, as sent by the engine. The order of events is the log's.
  occurred_at_ns bigint not null,
  current_task_name text,
  -- Free-form objects are text, so that they stay as they were sent, byte for byte.
  input_variables text,
  reply_message_id text,
  reply_text text,
  transfer_reference_variables text,
  transfer_variables text,
  transfer_task_name text,
  request_id text not null,
  stored_at timestamptz not null,
  primary key (tenant_id, external_conversation_id, accepted_at, generation, "offset")
) partition by range (accepted_at);

create table conversation_states (
  tenant_id text not null,
  external_conversation_id text not null,
  conversation_id text not null,
  -- NULL: only events that set no state were seen.
  state text,
  last_automation_agent_message_id text,
  current_task_name text,
  input_variables text,
  generation integer not null,
  "offset" bigint not null,
  read_generation integer not null,
  read_partition integer not null,
  read_offset bigint not null,
  updated_at timestamptz not null,
  primary key (tenant_id, external_conversation_id)
);
