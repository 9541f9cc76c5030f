-- Counts of MessageSent events per quarter-hour of their own time: occurred_at_ns, else accepted_at. docs/data.md defines
-- them. The sum of rollups and deltas is exact at any time: a batch adds a delta in the transaction that stores its events,
-- and the workers move deltas to the other two tables. Events stored by earlier releases are not counted.

-- The counts of one batch, for each tenant and quarter-hour of its events. The position is that of the first event.
create table message_sent_deltas (
  tenant_id text not null,
  quarter_hour timestamptz not null,
  generation integer not null,
  partition integer not null,
  "offset" bigint not null,
  -- By augmentation type, then by conversation; see shared/message-sent/delta.ts for the bytes.
  rollups bytea not null,
  conversations bytea not null,
  primary key (tenant_id, quarter_hour, generation, partition, "offset")
);
-- Rows are deleted after some seconds: compressing them, or moving them to another table, would cost more than it saves.
alter table message_sent_deltas alter column rollups set storage external;
alter table message_sent_deltas alter column conversations set storage external;
alter table message_sent_deltas set (toast_tuple_target = 8160);

create table message_sent_rollups (
  tenant_id text not null,
  quarter_hour timestamptz not null,
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
  primary key (tenant_id, quarter_hour, augmentation_type)
) with (fillfactor = 80);

create table message_sent_conversations (
  tenant_id text not null,
  quarter_hour timestamptz not null,
  -- As the events have them; empty if they have none.
  conversation_id text not null,
  external_conversation_id text not null,
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
  primary key (tenant_id, quarter_hour, conversation_id, external_conversation_id)
) with (fillfactor = 80);
