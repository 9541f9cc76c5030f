-- Records that could not be stored. Local on the coordinator of a Citus, as log_positions is: a row is written in the
-- transaction that moves its partition's position.

create table dead_letters (
  -- The position at which the record was read first.
  topic text not null,
  generation integer not null,
  partition integer not null,
  "offset" bigint not null,
  kind text not null,
  -- Empty if the record has none, or an invalid one.
  tenant_id text not null,
  record_id text not null,
  entity text not null,
  reason text not null,
  stage text not null,
  error text not null,
  -- As received. NULL: the log had none. The value may also have been erased, or could not be imported.
  key bytea,
  value bytea,
  -- JSON of pairs of name and value, the value in base64.
  headers bytea not null,
  -- Bytes of key, value, headers and the row, roughly.
  bytes bigint not null,
  -- The key that encrypted the credentials in the value. NULL: there are none.
  key_id text,
  -- open, replaying, replayed or dropped.
  state text not null,
  state_at timestamptz not null,
  -- Number of the last replay; a record that is published again carries it.
  replay integer not null default 0,
  -- Offset in the dead-letter topic of earlier releases. NULL once anything but the import has changed the row.
  imported_offset bigint,
  accepted_at timestamptz not null,
  failed_at timestamptz not null,
  -- When the value is erased. NULL: with the row.
  value_expires_at timestamptz,
  expires_at timestamptz not null,
  primary key (topic, generation, partition, "offset")
);

-- For the newest dead letters, the open ones of a tenant with their bytes, look-ups by id, and sweeps.
create index dead_letters_failed_at on dead_letters (failed_at);
create index dead_letters_open on dead_letters (tenant_id) include (bytes) where state in ('open', 'replaying');
create index dead_letters_record_id on dead_letters (record_id) where record_id <> '';
create index dead_letters_expires_at on dead_letters (expires_at);
create index dead_letters_value_expires_at on dead_letters (value_expires_at)
  where value is not null and value_expires_at is not null;

create index dead_letters_credentials on dead_letters (tenant_id, entity)
  where kind = 'credentials' and value is not null;

-- Offsets up to which the dead-letter topics of earlier releases are imported.
create table dead_letter_imports (
  topic text not null,
  partition integer not null,
  next_offset bigint not null,
  primary key (topic, partition)
);
