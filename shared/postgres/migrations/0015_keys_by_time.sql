-- The primary keys of event_keys and message_sent begin with what grows with time (ids, if they are ULIDs), not with
-- the tenant. New rows of all tenants then go to the same few pages of an index; led by the tenant, a batch of many
-- tenants changed a page per row. ON CONFLICT needs the same columns in any order.
--
-- 0015_keys_by_time.concurrently.sql has built most indexes before, while the tables were in use.
lock table event_keys, message_sent in access exclusive mode;

do $$
declare
  part record;
begin
  for part in
    select c.relname as name, format('%s_by_%s', c.relname, wanted.suffix) as index, wanted.columns, i.indisvalid
      from (values ('event_keys'::regclass, 'key', 'key, tenant_id, kind'),
                   ('message_sent'::regclass, 'time', 'accepted_at, tenant_id, message_id'))
             as wanted (parent, suffix, columns)
      join pg_inherits on inhparent = wanted.parent
      join pg_class c on c.oid = inhrelid
      left join pg_index i on i.indrelid = c.oid
       and i.indexrelid = to_regclass(quote_ident(format('%s_by_%s', c.relname, wanted.suffix)))
  loop
    if not part.indisvalid then
      execute format('drop index %I', part.index);
    end if;
    if part.indisvalid is not true then
      execute format('create unique index %I on %I (%s)', part.index, part.name, part.columns);
    end if;
  end loop;

  alter table event_keys drop constraint event_keys_pkey;
  alter table only event_keys add primary key (key, tenant_id, kind);
  alter table message_sent drop constraint message_sent_pkey;
  alter table only message_sent add primary key (accepted_at, tenant_id, message_id);

  for part in
    select p.relname as parent, c.relname as name, x.relname as index
      from pg_inherits
      join pg_class p on p.oid = inhparent
      join pg_class c on c.oid = inhrelid
      join pg_index i on i.indrelid = c.oid
      join pg_class x on x.oid = i.indexrelid
     where inhparent in ('event_keys'::regclass, 'message_sent'::regclass)
       and x.relname in (c.relname || '_by_key', c.relname || '_by_time')
  loop
    execute format('alter table %I add constraint %I primary key using index %I',
                   part.name, part.name || '_pkey', part.index);
    execute format('alter index %I attach partition %I', part.parent || '_pkey', part.name || '_pkey');
  end loop;
end
$$;
