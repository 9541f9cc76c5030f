-- Indexes of exports, which read the rows of a partition of the log in the order in which workers read them. They are
-- without the tenant, so that new rows of all tenants go to a few pages of an index, as in 0015, and because Postgres
-- fills pages of ascending keys only if these have 16 bytes: with the tenant, an entry takes 116 bytes, without it 40.
--
-- 0025_read_position_indexes.concurrently.sql has built most of them before, while the tables were in use. An index on a
-- partitioned table takes over those of its partitions.

do $$
declare
  invalid record;
begin
  for invalid in
    select indexrelid::regclass as index from pg_index join pg_class on oid = indexrelid
     where not indisvalid and relname ~ '_by_read$' and relnamespace = current_schema()::regnamespace
  loop
    execute format('drop index %s', invalid.index);
  end loop;
end
$$;

create index agent_records_by_read on agent_records (
  coalesce(read_partition, partition), coalesce(read_generation, generation), coalesce(read_offset, "offset"));
create index conversation_records_by_read on conversation_records (
  coalesce(read_partition, partition), coalesce(read_generation, generation), coalesce(read_offset, "offset"));
create index message_sent_by_read on message_sent (
  coalesce(read_partition, partition), coalesce(read_generation, generation), coalesce(read_offset, "offset"));
create index automation_events_by_read on automation_events (
  coalesce(read_partition, partition), coalesce(read_generation, generation), coalesce(read_offset, "offset"));
create index if not exists credentials_by_read on credentials (
  coalesce(read_partition, partition), coalesce(read_generation, generation), coalesce(read_offset, "offset"));
