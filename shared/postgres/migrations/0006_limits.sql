-- The quota of records per day, and the records that were counted.

-- Records per UTC day. NULL: no quota.
alter table tenants add column daily_quota integer check (daily_quota > 0);

-- One row per gateway process, for tenants with a quota. Each process writes its own number, which only grows, so that
-- writes are idempotent. The tenant's count is the sum.
create table tenant_usage (
  tenant_id text not null,
  day date not null,
  gateway_id text not null,
  records bigint not null,
  primary key (tenant_id, day, gateway_id)
);
