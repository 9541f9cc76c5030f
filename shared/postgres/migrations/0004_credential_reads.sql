-- Every request for credentials: who asked, and the outcome. Append-only, partitioned by week of read_at.

create table credential_reads (
  tenant_id text not null,
  read_at timestamptz not null,
  read_id text not null,
  -- The key that asked, and the request that it asked with.
  api_key_id text not null,
  request_id text not null,
  conversation_id text not null,
  -- read, or why nothing was disclosed.
  outcome text not null check (outcome in ('read', 'missing', 'expired', 'erased', 'key-lost', 'unreadable')),
  -- The submission; NULL if there was none.
  event_id text,
  primary key (tenant_id, read_at, read_id)
) partition by range (read_at);
create index credential_reads_by_conversation on credential_reads (tenant_id, conversation_id, read_at, read_id);
