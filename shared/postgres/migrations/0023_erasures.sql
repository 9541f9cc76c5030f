-- Erasures of persons' data on request, and of tenants: the audit, and what may not come back.

-- The audit. It does not name the person: SHA-256 of the id, see shared/postgres/erased-ids.ts.
create table erasures (
  tenant_id text not null,
  erasure_id text not null,
  -- agent, conversation, customer or tenant.
  subject text not null,
  id_sha256 bytea not null,
  -- The records that were accepted up to then are erased.
  erased_at timestamptz not null,
  erased_by text not null,
  -- The ids that are erased, while the erasure runs; NULL once it is complete, see finished_at.
  ids json,
  -- Numbers of rows by table.
  removed json,
  finished_at timestamptz,
  primary key (tenant_id, erasure_id)
);

-- The ids of records that the log, or a restored backup, may bring back. Workers do not store these records, or only what
-- does not belong to a person. Deleted once none can arrive.
create table erased_ids (
  tenant_id text not null,
  -- agent, conversation (the external id), conversation-id (the service's), customer, or tenant (all of its records).
  subject text not null,
  id_sha256 bytea not null,
  erased_at timestamptz not null,
  -- Rises with every change, in the order of the commits, so that workers read only what is new.
  number bigint not null unique,
  primary key (tenant_id, subject, id_sha256)
);
create sequence erased_ids_number;

-- Set while the tenant is being deleted.
alter table tenants add column deleted_at timestamptz;
