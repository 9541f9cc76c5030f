-- What analytics need of a message beyond the members of the interface. All columns are NULL in earlier rows, and in the
-- rows of workers of the release before, which may run next to this schema.

alter table message_sent
  -- Id of the conversation in the caller's system: the id of its metadata. NULL if it was not sent.
  add column external_conversation_id text,
  -- Time of the message in nanoseconds since the epoch, as sent. NULL if it was not sent: accepted_at is its time.
  add column occurred_at_ns bigint,
  -- The numbers that were not sent, and so are stored as 0, as a set of bits: 1 num_edits,
  -- 2 phrase_autocomplete_presented_ct, 4 selected_suggestion_index, 8 time_to_action, 16 crafting_time, 32 dwell_time,
  -- 64 phrase_autocomplete_selected_ct. NULL: unknown.
  add column omitted smallint;
