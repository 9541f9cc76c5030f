-- The embedded event log, in place of Kafka. Only shared/log/embedded/ uses these tables. Offsets of a partition have
-- no gaps and become visible in order, because an offset is taken by updating the partition's row, which stays locked
-- until the inserting transaction ends.

-- One row per partition. The low fill factor keeps the many updates of these few rows inside their pages.
create table log_partitions (
  topic text not null,
  partition integer not null,
  -- Offsets below are deleted.
  first_offset bigint not null,
  -- The offset that the next record gets.
  next_offset bigint not null,
  -- How long records are kept at least, in milliseconds.
  retention_ms bigint not null,
  primary key (topic, partition)
) with (fillfactor = 20);

create table log_records (
  topic text not null,
  partition integer not null,
  "offset" bigint not null,
  key text not null,
  value bytea not null,
  -- An object of strings; NULL: no headers. json, not jsonb: it is only ever read back.
  headers json,
  appended_at timestamptz not null,
  primary key (topic, partition, "offset")
);

-- Members of consumer groups, by topic. A member counts until alive_until.
create table log_group_members (
  group_name text not null,
  topic text not null,
  member text not null,
  alive_until timestamptz not null,
  primary key (group_name, topic, member)
);

-- The reader of a partition in a group, and the group's offset. The epoch rises whenever the partition changes hands,
-- so that a former owner can neither renew its lease nor move the offset.
create table log_group_partitions (
  group_name text not null,
  topic text not null,
  partition integer not null,
  -- The first offset that the group has not handled. NULL: it has handled none.
  next_offset bigint,
  epoch bigint not null,
  -- NULL: nobody reads it.
  member text,
  lease_until timestamptz,
  primary key (group_name, topic, partition)
) with (fillfactor = 20);
