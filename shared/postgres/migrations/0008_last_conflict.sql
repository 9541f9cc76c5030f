-- The last content that was refused under an id which is stored with another: what it was, when it came, and where it was
-- read first, which is the name of its dead letter. The same content again is no further conflict.
alter table event_keys
  add column conflict_hash bytea,
  add column conflict_at timestamptz,
  add column conflict_generation integer,
  add column conflict_partition integer,
  add column conflict_offset bigint;
