-- The API key that created a key or a webhook endpoint, so that everything that a leaked key created can be found and
-- revoked. NULL: the command created it, or an earlier release.

alter table api_keys add column created_by text;
alter table webhook_endpoints add column created_by text;

-- For pages of a tenant's keys, the keys created in the last day, the keys that are not revoked, and the keys that a
-- key created.
create index api_keys_by_time on api_keys (tenant_id, created_at, api_key_id);
create index api_keys_not_revoked on api_keys (tenant_id) where revoked_at is null;
create index api_keys_by_maker on api_keys (tenant_id, created_by) where created_by is not null;
