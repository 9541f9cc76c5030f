-- The endpoints that are not deleted. Deleted ones stay as rows for ever, and a tenant can make any number of them.

create index webhook_endpoints_live on webhook_endpoints (tenant_id, endpoint_id) where state <> 'deleted';
