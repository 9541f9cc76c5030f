-- A view of the counts of data quality for jobs, see migration 17. Totals and deltas are read together, so that it always
-- has all counts.
create view analytics.data_quality with (security_barrier) as
select q.tenant_id,
       q.day,
       q.measure,
       q.kind,
       q.code,
       q.name,
       sum(q.records)::bigint as records
  from (select tenant_id, day, measure, kind, code, name, records from data_quality where tenant_id = (select tenant_id from analytics_scope)
        union all
        select tenant_id, day, measure, kind, code, name, records from data_quality_deltas where tenant_id = (select tenant_id from analytics_scope)
        union all
        select tenant_id, day, measure, kind, code, name, records from data_quality where (select all_tenants from analytics_scope)
        union all
        select tenant_id, day, measure, kind, code, name, records from data_quality_deltas where (select all_tenants from analytics_scope)) q
 group by q.tenant_id, q.day, q.measure, q.kind, q.code, q.name;
comment on view analytics.data_quality is 'Numbers of records with something wrong, per day.';
comment on column analytics.data_quality.tenant_id is 'The tenant of the records. Part of every join.';
comment on column analytics.data_quality.day is 'Day (UTC) on which the gateway accepted or refused the records.';
comment on column analytics.data_quality.measure is 'gap, unknown-member, rejected, duplicate, conflict or dead-letter.';
comment on column analytics.data_quality.kind is 'Kind of the records, such as message-sent.';
comment on column analytics.data_quality.code is 'Of rejected records the code of the answer, of dead letters the reason, of duplicates and conflicts gateway or worker.';
comment on column analytics.data_quality.name is 'The member or field that is counted. Empty: all records of the measure are counted.';
comment on column analytics.data_quality.records is 'Number of records.';

-- Readers that exist already. A restored database may list readers whose roles the server does not have.
do $$
declare
  reader name;
begin
  for reader in select r.role_name from analytics_readers r join pg_roles p on p.rolname = r.role_name loop
    execute format('grant select on analytics.data_quality to %I', reader);
  end loop;
end
$$;
