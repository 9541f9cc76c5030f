-- A name of a key for people, its secret of before during a rotation, and when it was last used. Only added: a release
-- before this one goes on, and takes the newest secret alone.

alter table api_keys
  add column name text,
  -- Both or neither. The secret is taken until that time.
  add column previous_secret_sha256 bytea,
  add column previous_valid_until timestamptz,
  -- Written by gateways and admin listeners in batches; behind by up to a minute.
  add column last_used_at timestamptz,
  add check ((previous_secret_sha256 is null) = (previous_valid_until is null));
