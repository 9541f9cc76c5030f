/** Bytes of a request's body at most, as sent and after gunzip. */
export const BODY_BYTES_MAX = 64 * 1024;
/** Bytes that all bodies may hold at once. */
export const BODY_BUFFER_BYTES_MAX = 16 * 1024 * 1024;

/** Keys of a tenant that are neither revoked nor expired, up to which the interface makes more; the command is not bound. */
export const VALID_KEYS_MAX = 1000;
/** Keys that a tenant's keys may make in 24 hours, unless the setting says otherwise; the command is not bound. */
export const KEYS_PER_DAY_MAX = 1000;
