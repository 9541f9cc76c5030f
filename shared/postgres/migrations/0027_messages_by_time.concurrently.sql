-- Returns the statements that build the new indexes of the partitions that have rows. An index that an interrupted run left
-- invalid is built again.
select statement
  from (
    select c.relname, i.indisvalid, c.relname || '_by_block' as index
      from pg_inherits
      join pg_class c on c.oid = inhrelid
      left join pg_index i on i.indrelid = c.oid and i.indexrelid = to_regclass(quote_ident(c.relname || '_by_block'))
     where inhparent = 'message_sent'::regclass and pg_relation_size(c.oid) > 0
  ) as part
 cross join lateral (
    values (1, format('drop index concurrently %I', part.index), part.indisvalid is false),
           (2, format('create index concurrently %I on %I using brin (accepted_at) with (pages_per_range = 16, autosummarize = on)',
                      part.index, part.relname),
               part.indisvalid is not true)
  ) as step (place, statement, is_needed)
 where step.is_needed
 order by part.relname, step.place;
