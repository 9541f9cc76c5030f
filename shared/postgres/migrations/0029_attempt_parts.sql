-- How long the parts of an attempt took, in milliseconds, and the class of its error. NULL: the part did not take place, as
-- an exchange on an open connection only waits for the first byte; or a release without these columns sent the webhook.
alter table webhook_attempts
  add column dns_ms integer,
  add column connect_ms integer,
  add column tls_ms integer,
  add column first_byte_ms integer,
  add column error_class text;
