-- The W3C trace context of the record that caused the message, which attempts continue; NULL: the record had none. Workers of
-- the previous release do not write it, and their dispatchers do not read it.
alter table webhook_messages add column traceparent text;
