-- Counts of MessageSent per quarter-hour, hour and day (UTC), so that a report reads few rows. Workers write all three in
-- the transaction that deletes the deltas. message_sent_rollups stays for the workers of the release before, which may run
-- next to this schema: a report adds its rows, and workers move them here.
create table message_sent_blocks (
  tenant_id text not null,
  -- 15, 60 or 1440.
  minutes smallint not null,
  starts_at timestamptz not null,
  -- '*' is all events.
  augmentation_type text not null,
  messages bigint not null,
  uses bigint not null,
  edits bigint not null,
  sent_unedited bigint not null,
  suggestions_shown bigint not null,
  suggestions_used bigint not null,
  selected_first bigint not null,
  selected_second bigint not null,
  selected_third bigint not null,
  selected_later bigint not null,
  phrases_presented bigint not null,
  phrases_selected bigint not null,
  with_num_edits bigint not null,
  with_phrases_presented bigint not null,
  with_phrases_selected bigint not null,
  with_time_to_action bigint not null,
  with_crafting_time bigint not null,
  with_dwell_time bigint not null,
  time_to_action_us bigint not null,
  crafting_time_us bigint not null,
  dwell_time_us bigint not null,
  -- Pairs of bucket and number of events; see shared/message-sent/delta.ts.
  time_to_action bytea not null,
  crafting_time bytea not null,
  dwell_time bytea not null,
  primary key (tenant_id, minutes, starts_at, augmentation_type)
) with (fillfactor = 80);
-- A row is read and written back as a whole every minute: compressing its histograms, or moving them to another table,
-- would cost more than it saves.
alter table message_sent_blocks alter column time_to_action set storage external;
alter table message_sent_blocks alter column crafting_time set storage external;
alter table message_sent_blocks alter column dwell_time set storage external;
alter table message_sent_blocks set (toast_tuple_target = 8160);
