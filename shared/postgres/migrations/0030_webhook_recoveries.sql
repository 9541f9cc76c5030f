-- Jobs that send ended deliveries of an endpoint again. Workers move them back to webhook_queue, a few at a time. Has no
-- ids of persons.

create table webhook_recoveries (
  tenant_id text not null,
  job_id text not null,
  endpoint_id text not null,
  state text not null check (state in ('running', 'completed', 'cancelled', 'failed')),
  -- Why a running job makes no progress, or a failed one failed.
  reason text,
  -- Deliveries that were stored from the first time on, and before the second one, in one of these states.
  from_at timestamptz not null,
  to_at timestamptz not null,
  states text[] not null,
  -- The last delivery that was examined; NULL: none yet.
  cursor_at timestamptz,
  cursor_id text,
  -- Deliveries that the job is for, as counted at its start; NULL: not counted yet.
  total bigint,
  queued bigint not null default 0,
  -- Deliveries that are not sent again: their bodies were erased or dropped, or they changed meanwhile.
  skipped bigint not null default 0,
  -- Deliveries that the next step may queue, and when it is due.
  step_size integer not null default 16,
  step_at timestamptz not null,
  created_at timestamptz not null,
  created_by text,
  finished_at timestamptz,
  primary key (tenant_id, job_id),
  check ((state = 'running') = (finished_at is null))
);
-- One job per endpoint at a time.
create unique index webhook_recoveries_running on webhook_recoveries (tenant_id, endpoint_id) where state = 'running';
create index webhook_recoveries_due on webhook_recoveries (step_at) where state = 'running';
create index webhook_recoveries_finished on webhook_recoveries (finished_at) where state <> 'running';
