import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ERRORS, type ErrorDetail, errorEnvelope } from '../../contracts/errors.ts';
import { errorCode } from '../../errors.ts';
import type { IdGenerator } from '../../ids.ts';
import { RETRY_AFTER_SECONDS } from '../failures.ts';
import { REQUEST_ID_HEADER } from '../request-id.ts';
import { UNCACHED } from '../uncached.ts';

/** The answer to a request that never reaches the app. */
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

/** Answers a request of an address that has too many open, before anything else is looked at. */
export function refuseBusy(outgoing: ServerResponse, requestId: string): void {
  const details = [{ path: 'request', message: 'too many of this address are open' }];
  outgoing.writeHead(ERRORS['503-01'].status, {
    ...UNCACHED,
    'content-type': 'application/json',
    'retry-after': String(RETRY_AFTER_SECONDS),
    [REQUEST_ID_HEADER]: requestId,
  });
  outgoing.end(JSON.stringify(errorEnvelope(requestId, '503-01', details)));
}

/** After an answer that ends the connection, what still comes is thrown away for so long, so that no reset overtakes it. */
const LINGER_MS = 2000;

/**
 * Answers what Node's parser refuses (malformed HTTP, headers too large, request too slow) with the error envelope,
 * behind the answers to the requests that came before it on the connection. Where the answer to the refused request is
 * already on its way the connection can only be cut.
 */
export function answerUnparsable(server: Server, nextId: IdGenerator): void {
  const open = new WeakMap<Socket, Set<ServerResponse>>();
  const last = new WeakMap<Socket, ServerResponse>();
  const refused = new WeakSet<Socket>();
  const remember = ({ socket }: IncomingMessage, outgoing: ServerResponse) => {
    const ofSocket = open.get(socket) ?? new Set();
    open.set(socket, ofSocket.add(outgoing));
    last.set(socket, outgoing);
    outgoing.once('close', () => ofSocket.delete(outgoing));
  };
  server.prependListener('request', remember);
  server.prependListener('checkContinue', remember);
  server.prependListener('checkExpectation', remember);
  server.on('clientError', (error: Error, stream) => {
    const socket = stream as Socket;
    // One refusal brings more errors, since the parser goes on with what it is given.
    if (refused.has(socket)) return;
    refused.add(socket);
    const answer = last.get(socket);
    // Its body is what is broken; any answer before it belongs to a request that arrived whole.
    const broken = answer?.req.complete === false ? answer : undefined;
    const before = [...(open.get(socket) ?? [])].filter((each) => each !== broken);
    void Promise.all(before.map(ended)).then(() => {
      // After a finished answer the rest of its body may still arrive: nobody waits for a second answer to it.
      if (!socket.writable || broken?.headersSent || errorCode(error) === 'ECONNRESET') socket.destroy();
      else refuse(socket, nextId(), problemOf(error));
    });
  });
  // We are no proxy; without a listener Node would cut the connection.
  server.on('connect', (_request: IncomingMessage, stream) => {
    const socket = stream as Socket;
    socket.on('error', () => socket.destroy());
    socket.resume();
    end(socket, nextId(), '404-01');
  });
}

function ended(answer: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    if (answer.closed) resolve();
    else answer.once('close', resolve);
  });
}

function refuse(socket: Socket, requestId: string, message: string): void {
  end(socket, requestId, '400-01', [{ path: 'request', message }]);
}

/** Writes the answer to a request that Node has no response for, and ends the connection. */
function end(socket: Socket, requestId: string, code: '400-01' | '404-01', details?: ErrorDetail[]): void {
  const text = JSON.stringify(errorEnvelope(requestId, code, details));
  const status = `${ERRORS[code].status} ${STATUS_CODES[ERRORS[code].status]}`;
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nConnection: close\r\n` +
      `${UNCACHED_LINES}${REQUEST_ID_HEADER}: ${requestId}\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
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
