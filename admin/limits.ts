/** Bytes of a request's body at most, as sent and after gunzip. */
export const BODY_BYTES_MAX = 64 * 1024;
/** Bytes that all bodies may hold at once. */
export const BODY_BUFFER_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Keys of a tenant that are neither revoked nor expired, up to which the interface makes more; the command is not bound.
 * A gateway caches 10,000 keys of all tenants: no tenant can push out those of the others with its own.
 */
export const VALID_KEYS_MAX = 1000;
