-- Messages are found by their time, which grows with their place in the table, so an index of the times of pages is enough.
-- It takes next to no space, where the primary key took 60 to 80 bytes per message. event_keys alone makes messages unique.
--
-- 0027_messages_by_time.concurrently.sql has built most indexes before, while the table was in use. An index on a
-- partitioned table takes over those of its partitions.

do $$
declare
  invalid record;
begin
  for invalid in
    select indexrelid::regclass as index from pg_index join pg_class on oid = indexrelid
     where not indisvalid and relname ~ '_by_block$' and relnamespace = current_schema()::regnamespace
  loop
    execute format('drop index %s', invalid.index);
  end loop;
end
$$;

alter table message_sent drop constraint message_sent_pkey;
create index message_sent_by_block on message_sent using brin (accepted_at) with (pages_per_range = 16, autosummarize = on);
