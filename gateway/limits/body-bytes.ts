/** Bytes of a request's body at most, as sent and after gunzip. */
export const BODY_BYTES_MAX = 1024 * 1024;
/** Of the operations that take many items. */
export const ITEMS_BODY_BYTES_MAX = 4 * 1024 * 1024;
export const CREDENTIALS_BODY_BYTES_MAX = 64 * 1024;
