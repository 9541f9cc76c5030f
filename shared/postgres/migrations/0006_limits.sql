-- What a tenant may bring in a day, and what was counted of it.

-- Records a UTC day. NULL: no quota.
alter table tenants add column daily_quota integer check (daily_quota > 0);

-- Of tenants that have a quota, one row a process of the gateway: each writes its own number, which only ever rises, so
-- that writing it again changes nothing. A tenant's day is the sum.
create table tenant_usage (
  tenant_id text not null,
  day date not null,
  gateway_id text not null,
  records bigint not null,
  primary key (tenant_id, day, gateway_id)
);
