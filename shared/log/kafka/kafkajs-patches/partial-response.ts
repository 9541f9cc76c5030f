import Connection from 'kafkajs/src/network/connection.js';

/** Bytes of the length with which a response begins. */
const LENGTH_BYTES = 4;

const connect = Connection.prototype.connect;

/**
 * Patches the probable cause of kafkajs #715. A connection that is reset in the middle of a
 * response, and connected again, takes the next response for the rest of the partial one. It reads
 * lengths from the middle of records; responses never arrive, or an uncaught error ends the
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
