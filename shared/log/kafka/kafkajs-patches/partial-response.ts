import Connection from 'kafkajs/src/network/connection.js';

/** Bytes of the length field at the start of a response. */
const LENGTH_BYTES = 4;

const connect = Connection.prototype.connect;

/**
 * Patches the probable cause of kafkajs #715. After a reset in the middle of a response and a
 * reconnect, the connection treats the next response as the rest of the partial one. Lengths are
 * then read from the middle of records: responses never arrive, or an uncaught error ends the
 * process. The patch discards the partial response.
 */
export function patchPartialResponse(): void {
  Connection.prototype.connect = function (this: Connection): Promise<unknown> {
    if (!this.isConnected()) {
      this.chunks = [];
      this.bytesBuffered = 0;
      this.bytesNeeded = LENGTH_BYTES;
    }
    return connect.call(this);
  };
}
