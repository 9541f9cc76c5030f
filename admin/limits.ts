/** Bytes of a request's body at most, as sent and after gunzip. */
export const BODY_BYTES_MAX = 64 * 1024;
