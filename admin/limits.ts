/** Bytes of a request's body at most, as sent and after gunzip. */
export const BODY_BYTES_MAX = 64 * 1024;
/** Bytes that all bodies may hold at once. */
export const BODY_BUFFER_BYTES_MAX = 16 * 1024 * 1024;
