-- Counts of MessageSent per quarter-hour, hour and day (UTC), so that a report reads few rows. Workers write all three in
-- the transaction that deletes the deltas. message_sent_rollups and message_sent_conversations stay for the workers of the
-- release before, which may run next to this schema: a report adds their rows, and workers move them here.
create table message_sent_blocks (
  tenant_id text not null,
  -- 15, 60 or 1440.
  minutes smallint not null,
  starts_at timestamptz not null,
  -- As in message_sent_deltas; see shared/message-sent/delta.ts for the bytes.
  rollups bytea not null,
  -- NULL for hours and days.
  conversations bytea,
  primary key (tenant_id, minutes, starts_at)
) with (fillfactor = 80);
-- Both are read and written back as a whole every minute: compressing them would cost more than it saves.
alter table message_sent_blocks alter column rollups set storage external;
alter table message_sent_blocks alter column conversations set storage external;
