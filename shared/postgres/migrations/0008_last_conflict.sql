-- The last conflicting content of an id: its hash, its time, and its first position, which names its dead letter. The
-- same content again is not counted as a conflict.
alter table event_keys
  add column conflict_hash bytea,
  add column conflict_at timestamptz,
  add column conflict_generation integer,
  add column conflict_partition integer,
  add column conflict_offset bigint;
