-- Webhook endpoints, the messages they are sent, and the queue and log of deliveries.
--
-- A message and its deliveries carry the same created_at; the three large tables are partitioned by week of it (attempts
-- by the time of the attempt). Without foreign keys between them, so that old weeks can be dropped one table at a time.

create table webhook_endpoints (
  tenant_id text not null references tenants (tenant_id),
  endpoint_id text not null,
  url text not null,
  -- NULL: all types.
  event_types text[],
  -- A deleted endpoint keeps its row: events that are being written when it is deleted must see that.
  state text not null check (state in ('enabled', 'disabled', 'deleted')),
  disabled_reason text,
  -- The signing secret, encrypted with the key ring; erased when the endpoint is deleted.
  secret_key_id text,
  secret_ciphertext bytea,
  -- Failed attempts since the last success.
  failures integer not null default 0,
  failing_since timestamptz,
  last_failure_at timestamptz,
  last_success_at timestamptz,
  -- The end of the pause that the endpoint asked for.
  paused_until timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, endpoint_id),
  check (state = 'deleted' or (secret_key_id is not null and secret_ciphertext is not null))
);

create table webhook_messages (
  tenant_id text not null,
  message_id text not null,
  created_at timestamptz not null,
  type text not null,
  -- Exactly the bytes that are signed and sent.
  body bytea not null,
  primary key (tenant_id, created_at, message_id)
) partition by range (created_at);

-- Numbers deliveries in the order of their commits within a conversation, as one conversation has one writer at a time.
create sequence webhook_delivery_seq;

-- Claims, results and parking change deliveries only under the lock of their endpoint's row.
create table webhook_deliveries (
  tenant_id text not null,
  endpoint_id text not null,
  created_at timestamptz not null,
  message_id text not null,
  seq bigint not null,
  -- Deliveries to one endpoint with the same key are sent in order of seq; NULL: in no order.
  ordering_key text,
  state text not null check (state in ('pending', 'delivered', 'failed', 'dropped')),
  -- When it may be claimed next; while it is leased, the end of the lease.
  due_at timestamptz not null,
  -- Attempts begun. Raised before sending, so that an attempt that kills the sender counts.
  attempts integer not null default 0,
  -- Identifies the sender; a result counts only with the same token.
  lease_token text,
  -- Waits for an earlier delivery of its conversation, and is not claimed before that one releases it.
  parked boolean not null default false,
  -- Whether later deliveries of its conversation wait for it; permanently false once they have waited for an hour.
  holds boolean not null default true,
  first_failed_at timestamptz,
  finished_at timestamptz,
  primary key (tenant_id, endpoint_id, created_at, message_id)
) partition by range (created_at);
create index webhook_deliveries_due on webhook_deliveries (tenant_id, endpoint_id, due_at, seq)
  where state = 'pending' and not parked;
create index webhook_deliveries_leased on webhook_deliveries (tenant_id, endpoint_id, due_at)
  where state = 'pending' and lease_token is not null;
create index webhook_deliveries_holding on webhook_deliveries (tenant_id, endpoint_id, ordering_key, seq)
  where state = 'pending' and holds and ordering_key is not null;
create index webhook_deliveries_parked on webhook_deliveries (tenant_id, endpoint_id, ordering_key, seq)
  where state = 'pending' and parked;
create index webhook_deliveries_failing on webhook_deliveries (tenant_id, endpoint_id, first_failed_at)
  where state = 'pending' and holds and ordering_key is not null and first_failed_at is not null;
create index webhook_deliveries_spent on webhook_deliveries (tenant_id, endpoint_id, ordering_key, seq)
  where state = 'pending' and not holds;

-- What became of each attempt, for the endpoint's owner.
create table webhook_attempts (
  tenant_id text not null,
  endpoint_id text not null,
  message_id text not null,
  attempt integer not null,
  created_at timestamptz not null,
  -- HTTP status of the answer; NULL without one.
  status integer,
  -- Why it failed, as text; NULL when it was delivered.
  error text,
  duration_ms integer not null,
  -- The first bytes of the answer's body.
  answer bytea,
  primary key (tenant_id, endpoint_id, message_id, attempt, created_at)
) partition by range (created_at);
