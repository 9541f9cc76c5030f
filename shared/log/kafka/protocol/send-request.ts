import type Connection from 'kafkajs/src/network/connection.js';

/** Bytes of the length before each request, which does not count itself. */
const LENGTH_BYTES = 4;
/** Offset of the client id's length in a request. */
const CLIENT_ID_AT = 12;
const CLIENT_ID_LENGTH_BYTES = 2;

/** A request to send. */
export interface OutgoingRequest {
  /** Names the request and its version. */
  readonly request: KafkajsRequest;
  /** An upper bound of the bytes of the body. */
  readonly bodyBytesMax: number;
  /** Writes the body at an offset, and returns its end. */
  readonly writeBody: (target: Buffer, start: number) => number;
  readonly timeoutMs: number;
  /** Called just before the request is written to the connection. */
  readonly onSent: () => void;
}

/**
 * Sends a request on a connected and authenticated connection, and resolves with the body of its
 * response. Encodes the request in one buffer and writes it before this function returns. The
 * `send` of kafkajs copies the request twice, into buffers that it first fills with zeros, and
 * writes it some microtasks later.
 */
export function sendRequest(connection: Connection, outgoing: OutgoingRequest): Promise<Buffer> {
  const { request, timeoutMs, onSent } = outgoing;
  return new Promise((resolve, reject) => {
    const { socket } = connection;
    if (!socket || !connection.isConnected()) throw new Error('the connection is closed');
    const correlationId = connection.nextCorrelationId();
    const bytes = encode(connection.clientId, correlationId, outgoing);
    connection.requestQueue.push({
      entry: {
        apiKey: request.apiKey,
        apiName: request.apiName,
        apiVersion: request.apiVersion,
        correlationId,
        resolve: ({ payload }) => resolve(payload),
        reject,
      },
      expectResponse: true,
      requestTimeout: timeoutMs,
      sendRequest: () => {
        onSent();
        socket.write(bytes);
      },
    });
  });
}

/** Returns the request with its header (version 1). */
function encode(
  clientId: string,
  correlationId: number,
  { request, bodyBytesMax, writeBody }: OutgoingRequest,
): Buffer {
  const bodyStart = CLIENT_ID_AT + CLIENT_ID_LENGTH_BYTES + Buffer.byteLength(clientId);
  const target = Buffer.allocUnsafe(bodyStart + bodyBytesMax);
  target.writeInt16BE(request.apiKey, 4);
  target.writeInt16BE(request.apiVersion, 6);
  target.writeInt32BE(correlationId, 8);
  target.writeInt16BE(target.write(clientId, CLIENT_ID_AT + CLIENT_ID_LENGTH_BYTES), CLIENT_ID_AT);
  const end = writeBody(target, bodyStart);
  target.writeInt32BE(end - LENGTH_BYTES, 0);
  return target.subarray(0, end);
}
