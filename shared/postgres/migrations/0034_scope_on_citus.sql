-- The same rows. Citus stores the result of the inner query for others, which needs a column.
create or replace view analytics_scope as
select tenant_id, tenant_id is null as all_tenants
  from analytics_readers
 where role_name = current_user
union all
select null, true
 where has_table_privilege('analytics_readers'::regclass, 'select')
   and not exists (select 1 from analytics_readers where role_name = current_user);
