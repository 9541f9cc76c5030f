-- The position at which a worker read a row's record, if that is not its first position: a dead letter that is replayed
-- keeps its first position, but is read later. NULL, as in all earlier rows: the record was read at its first position.
-- Exports follow the positions of reading, because rows below log_positions.next_offset are all stored. Since few rows
-- have a value, the columns take no space. The indexes come with 0025, because they are built concurrently.

do $$
declare
  name text;
begin
  foreach name in array array['agent_records', 'conversation_records', 'credentials', 'message_sent', 'automation_events']
  loop
    execute format('alter table %I add column read_generation integer, add column read_partition integer,
                                   add column read_offset bigint', name);
  end loop;
end
$$;
