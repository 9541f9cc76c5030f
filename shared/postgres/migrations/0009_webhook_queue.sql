-- The queue of webhook deliveries that wait or are in flight; webhook_deliveries keeps those that ended.
--
-- The queue is not partitioned. A delivery may wait for weeks, so statements on the queue have no bound on the time,
-- and the cost of planning them would grow with every week that is kept. A delivery is in one of the two tables: it
-- moves to its week of webhook_deliveries in the transaction that ends it.
--
-- Nothing is moved here: processes of the previous release still use webhook_deliveries as their queue. The dispatchers
-- of this release move the deliveries that those leave (workers/webhooks/sql/backfill-queue.ts).

create table webhook_queue (
  tenant_id text not null,
  endpoint_id text not null,
  message_id text not null,
  -- That of the message, which is stored in this week of webhook_messages.
  created_at timestamptz not null,
  seq bigint not null,
  -- Deliveries to one endpoint with the same key are sent in order of seq; NULL: in no order.
  ordering_key text,
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
  -- The message's body, copied before its week of webhook_messages is dropped; NULL: read it there.
  body bytea,
  primary key (tenant_id, endpoint_id, message_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
create index webhook_queue_due on webhook_queue (tenant_id, endpoint_id, due_at, seq) where not parked;
create index webhook_queue_leased on webhook_queue (tenant_id, endpoint_id, due_at) where lease_token is not null;
create index webhook_queue_holding on webhook_queue (tenant_id, endpoint_id, ordering_key, seq)
  where holds and ordering_key is not null;
create index webhook_queue_parked on webhook_queue (tenant_id, endpoint_id, ordering_key, seq) where parked;
create index webhook_queue_failing on webhook_queue (tenant_id, endpoint_id, first_failed_at)
  where holds and ordering_key is not null and first_failed_at is not null;
create index webhook_queue_spent on webhook_queue (tenant_id, endpoint_id, ordering_key, seq) where not holds;

-- A transaction takes one number and adds the ordinals of its messages, which are below the increment. Numbers of
-- processes of the previous release, which take one for each delivery, keep their order among these.
alter sequence webhook_delivery_seq increment by 1048576;
