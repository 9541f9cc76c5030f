-- What owners change of their webhook endpoints: a description, filters, custom headers, a rate, a retry schedule,
-- a pause and a second secret. Only adds columns: processes of the previous release write none of them.
--
-- A pause without an end is a paused_until in the year 9999, which dispatchers of the previous release respect too.

alter table webhook_endpoints
  add column description text,
  -- The filters as given, such as 'automation.*'; NULL: event_types are the filters. event_types then has the types
  -- that they matched when they were set, for processes of the previous release.
  add column event_filters text[],
  -- Attempts per second; NULL: no limit.
  add column rate_per_second integer,
  -- When the next attempt may begin at this rate. Claims take these times under the lock of the row.
  add column next_send_at timestamptz,
  add column retry_schedule text not null default 'standard' check (retry_schedule in ('standard', 'short', 'none')),
  -- The names of the custom headers, and a JSON object of them, encrypted with the key ring.
  add column header_names text[],
  add column headers_key_id text,
  add column headers_ciphertext bytea,
  -- The secret before the last rotation, which signs too until then.
  add column previous_secret_key_id text,
  add column previous_secret_ciphertext bytea,
  add column previous_secret_until timestamptz,
  -- The end of the last pause by the owner: holds on later deliveries of a conversation last from then.
  add column resumed_at timestamptz;

-- The endpoints with something to erase: previous secrets, which expire, and what a process of the previous release
-- left when it deleted an endpoint.
create index webhook_endpoints_to_erase on webhook_endpoints (tenant_id, endpoint_id)
  where previous_secret_until is not null or (state = 'deleted' and headers_ciphertext is not null);
