-- Which API key made a key or a webhook endpoint, so that what a leaked key made can be found and ended. NULL: the command
-- made it, or a release before this one.

alter table api_keys add column created_by text;
alter table webhook_endpoints add column created_by text;

-- Pages of a tenant's keys, the keys that it made in the last day, those that are not revoked, and those that a key made.
create index api_keys_by_time on api_keys (tenant_id, created_at, api_key_id);
create index api_keys_not_revoked on api_keys (tenant_id) where revoked_at is null;
create index api_keys_by_maker on api_keys (tenant_id, created_by) where created_by is not null;
