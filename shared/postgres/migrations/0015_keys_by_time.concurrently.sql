-- Returns the statements that build the new indexes of the partitions that have rows. An index that an interrupted run
-- left invalid is built again.
select statement
  from (
    select c.relname, i.indisvalid, format('%s_by_%s', c.relname, wanted.suffix) as index, wanted.columns
      from (values ('event_keys'::regclass, 'key', 'key, tenant_id, kind'),
                   ('message_sent'::regclass, 'time', 'accepted_at, tenant_id, message_id'))
             as wanted (parent, suffix, columns)
      join pg_inherits on inhparent = wanted.parent
      join pg_class c on c.oid = inhrelid
      left join pg_index i on i.indrelid = c.oid
       and i.indexrelid = to_regclass(quote_ident(format('%s_by_%s', c.relname, wanted.suffix)))
     where pg_relation_size(c.oid) > 0
  ) as part
 cross join lateral (
    values (1, format('drop index concurrently %I', part.index), part.indisvalid is false),
           (2, format('create unique index concurrently %I on %I (%s)', part.index, part.relname, part.columns),
               part.indisvalid is not true)
  ) as step (place, statement, is_needed)
 where step.is_needed
 order by part.relname, step.place;
