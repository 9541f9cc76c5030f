-- Replays of dead letters that tenants request at the admin listener, and gateways publish.

-- When the replay was requested; NULL: it was not, or it is published. The request holds while it is the last change of the
-- state, which every release records, so a drop or a replay by a release without this column ends it too.
alter table dead_letters add column replay_requested_at timestamptz;

-- For the gateways. It is empty but for a moment.
create index dead_letters_requested on dead_letters (tenant_id, topic, generation, partition, "offset")
  where state = 'replaying' and replay_requested_at = state_at;

-- 0031_requested_replays.concurrently.sql has built the others before, while the table was in use. `if not exists` would
-- lock the table all the same.
do $$
declare
  invalid record;
begin
  for invalid in
    select indexrelid::regclass as index from pg_index join pg_class on oid = indexrelid
     where not indisvalid and relname in ('dead_letters_by_tenant', 'dead_letters_unsettled')
       and relnamespace = current_schema()::regnamespace
  loop
    execute format('drop index %s', invalid.index);
  end loop;
  -- For the lists of tenants.
  if to_regclass('dead_letters_by_tenant') is null then
    create index dead_letters_by_tenant on dead_letters (tenant_id, failed_at desc, topic, generation, partition, "offset");
  end if;
  -- For those that a tenant replays or drops.
  if to_regclass('dead_letters_unsettled') is null then
    create index dead_letters_unsettled on dead_letters (tenant_id, topic, generation, partition, "offset")
      where state in ('open', 'replaying');
  end if;
end
$$;
