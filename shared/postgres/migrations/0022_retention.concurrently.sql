-- Returns the statements that build the new index. An index that an interrupted run left invalid is built again.
select step.statement
  from (select to_regclass('credentials_by_time') as index) as found
  left join pg_index i on i.indexrelid = found.index
 cross join lateral (
    values (1, 'drop index concurrently credentials_by_time', i.indisvalid is false),
           (2, 'create index concurrently credentials_by_time on credentials using brin (accepted_at)',
               i.indisvalid is not true)
  ) as step (place, statement, is_needed)
 where step.is_needed
 order by step.place;
