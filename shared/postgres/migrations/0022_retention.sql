-- What is left of histories whose weeks are dropped: of each entity, the records that still determine its current row.
-- Such a record was the last one with some member, or the last one that changed some part of the state. A fold of the
-- whole history reads these rows and those of the weeks that are kept.

create table agent_bases (
  tenant_id text not null,
  external_agent_id text not null,
  generation integer not null,
  "offset" bigint not null,
  accepted_at timestamptz not null,
  patch json not null,
  primary key (tenant_id, external_agent_id, generation, "offset")
);

create table conversation_bases (
  tenant_id text not null,
  external_conversation_id text not null,
  generation integer not null,
  "offset" bigint not null,
  accepted_at timestamptz not null,
  patch json not null,
  primary key (tenant_id, external_conversation_id, generation, "offset")
);

-- Without the texts of replies and the variables of transfers, which determine no state.
create table automation_event_bases (
  tenant_id text not null,
  external_conversation_id text not null,
  generation integer not null,
  "offset" bigint not null,
  accepted_at timestamptz not null,
  event_id text not null,
  conversation_id text not null,
  type text not null,
  occurred_at_ns bigint not null,
  current_task_name text,
  input_variables text,
  transfer_task_name text,
  primary key (tenant_id, external_conversation_id, generation, "offset")
);

-- For the rows of old submissions, which are about in the order of their times. 0022_retention.concurrently.sql has built
-- this index before, while the table was in use. `if not exists` would lock the table all the same.
do $$
declare
  is_valid boolean;
begin
  select indisvalid into is_valid from pg_index where indexrelid = to_regclass('credentials_by_time');
  if is_valid is false then
    drop index credentials_by_time;
  end if;
  if is_valid is not true then
    create index credentials_by_time on credentials using brin (accepted_at);
  end if;
end
$$;
