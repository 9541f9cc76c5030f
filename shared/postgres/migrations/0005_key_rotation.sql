-- A display name of a key, its previous secret during a rotation, and the time of its last use. Columns are only added:
-- earlier releases continue to work, and accept the newest secret only.

alter table api_keys
  add column name text,
  -- Both or neither. The secret is valid until that time.
  add column previous_secret_sha256 bytea,
  add column previous_valid_until timestamptz,
  -- Written by gateways and admin listeners in batches, up to a minute late.
  add column last_used_at timestamptz,
  add check ((previous_secret_sha256 is null) = (previous_valid_until is null));
