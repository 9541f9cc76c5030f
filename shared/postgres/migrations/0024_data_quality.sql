-- Counts of the quality of a tenant's data, per UTC day on which the gateway accepted or refused the records. docs/data.md
-- defines them. The sum of both tables is exact at any time for what workers count: a batch adds deltas in the transaction
-- that stores its records, only if there is something to count, and the workers move deltas to the other table.

create table data_quality_deltas (
  tenant_id text not null,
  day date not null,
  -- The batch of a worker, or the write of a gateway. Makes the writes of gateways idempotent.
  source text not null,
  -- gap, unknown-member, rejected, duplicate, conflict or dead-letter.
  measure text not null,
  kind text not null,
  -- Of rejected records the code, of dead letters the reason, of duplicates and conflicts the process that found them.
  code text not null,
  -- The member; empty for the number of records.
  name text not null,
  records bigint not null,
  primary key (tenant_id, day, source, measure, kind, code, name)
);

create table data_quality (
  tenant_id text not null,
  day date not null,
  measure text not null,
  kind text not null,
  code text not null,
  name text not null,
  records bigint not null,
  primary key (tenant_id, day, measure, kind, code, name)
) with (fillfactor = 80);
