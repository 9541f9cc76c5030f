-- Bytes of request bodies, as unpacked, that a tenant may send per second.

-- Both as request_rate and unlimited: NULL and false is the product's default.
alter table tenants add column byte_rate integer check (byte_rate > 0);
alter table tenants add column bytes_unlimited boolean not null default false;

-- Tenants without any rate keep none.
update tenants set bytes_unlimited = true where unlimited;
