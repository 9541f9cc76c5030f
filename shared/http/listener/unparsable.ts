import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ERRORS, type ErrorDetail, errorEnvelope } from '../../contracts/errors.ts';
import { errorCode } from '../../errors.ts';
import type { IdGenerator } from '../../ids.ts';
import { RETRY_AFTER_SECONDS } from '../failures.ts';
import { REQUEST_ID_HEADER, UNCACHED } from '../headers.ts';
import { closeLingering } from './lingering-close.ts';
import type { OpenAnswers } from './open-answers.ts';

/** Returns the response to a request that does not reach the app. */
export function refusal(requestId: string, code: '400-01' | '500-01', message?: string): Response {
  const details = message === undefined ? [] : [{ path: 'request', message }];
  return new Response(JSON.stringify(errorEnvelope(requestId, code, details)), {
    status: ERRORS[code].status,
    headers: { ...UNCACHED, 'content-type': 'application/json', [REQUEST_ID_HEADER]: requestId },
  });
}

const UNCACHED_LINES = Object.entries(UNCACHED)
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join('');

/** Answers a request with 503-01 because its address has too many open requests. */
export function refuseBusy(outgoing: ServerResponse, requestId: string): void {
  const details = [{ path: 'request', message: 'too many requests from this address are in flight' }];
  outgoing.writeHead(ERRORS['503-01'].status, {
    ...UNCACHED,
    'content-type': 'application/json',
    'retry-after': String(RETRY_AFTER_SECONDS),
    [REQUEST_ID_HEADER]: requestId,
  });
  outgoing.end(JSON.stringify(errorEnvelope(requestId, '503-01', details)));
}

/**
 * Answers requests that Node's parser rejects (malformed HTTP, headers too large, request too slow)
 * with the error envelope. The response follows those to the earlier requests of the connection. If
 * the response to the rejected request has already begun, destroys the connection. Calls `onRefused`
 * for each rejected request that the app did not get.
 */
export function answerUnparsable(
  server: Server,
  answers: OpenAnswers,
  nextId: IdGenerator,
  onRefused: () => void,
): void {
  const refused = new WeakSet<Socket>();
  server.on('clientError', async (error: Error, stream) => {
    const socket = stream as Socket;
    // The parser may report more errors for the bytes after the first error.
    if (refused.has(socket)) return;
    refused.add(socket);
    const last = answers.last(socket);
    // The malformed part is the body of the last request; all earlier requests are complete.
    const broken = last?.req.complete === false ? last : undefined;
    if (!broken && errorCode(error) !== 'ECONNRESET') onRefused();
    const earlier = answers.of(socket).filter((answer) => answer !== broken);
    await Promise.all(
      earlier.map((answer) => new Promise<void>((resolve) => answers.add(socket, answer, resolve))),
    );
    // An answered request may still be sending its body; the caller does not expect a second
    // response.
    if (!socket.writable || broken?.headersSent || errorCode(error) === 'ECONNRESET') socket.destroy();
    else answerAndClose(socket, nextId(), '400-01', [{ path: 'request', message: problemOf(error) }]);
  });
  // Without a listener, Node would destroy the connection without a response.
  server.on('connect', (_request: IncomingMessage, stream) => {
    const socket = stream as Socket;
    socket.on('error', () => socket.destroy());
    answerAndClose(socket, nextId(), '404-01');
  });
}

/**
 * Writes the response to a request for which Node has no response object, and closes the
 * connection.
 */
function answerAndClose(
  socket: Socket,
  requestId: string,
  code: '400-01' | '404-01',
  details?: ErrorDetail[],
): void {
  const text = JSON.stringify(errorEnvelope(requestId, code, details));
  const status = `${ERRORS[code].status} ${STATUS_CODES[ERRORS[code].status]}`;
  socket.write(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nConnection: close\r\n` +
      `${UNCACHED_LINES}${REQUEST_ID_HEADER}: ${requestId}\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
  closeLingering(socket);
}

function problemOf(error: unknown): string {
  switch (errorCode(error)) {
    case 'HPE_HEADER_OVERFLOW':
      return 'headers are larger than 16 KiB';
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 'did not arrive in time';
    default:
      return 'is not valid HTTP/1.1';
  }
}
