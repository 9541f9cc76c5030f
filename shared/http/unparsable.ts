import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ERRORS, errorEnvelope } from '../contracts/errors.ts';
import { errorCode } from '../errors.ts';
import type { IdGenerator } from '../ids.ts';
import { REQUEST_ID_HEADER } from './request-id.ts';

/** The answer to a request that never reaches the app. */
export function refusal(requestId: string, code: '400-01' | '500-01', message?: string): Response {
  const details = message === undefined ? [] : [{ path: 'request', message }];
  return new Response(JSON.stringify(errorEnvelope(requestId, code, details)), {
    status: ERRORS[code].status,
    headers: { 'content-type': 'application/json', [REQUEST_ID_HEADER]: requestId },
  });
}

/**
 * Answers what Node's parser refuses (malformed HTTP, headers too large, request too slow) with the error envelope,
 * unless the answer to the request is already on its way: then the connection can only be cut.
 */
export function answerUnparsable(server: Server, nextId: IdGenerator): void {
  const answers = new WeakMap<object, ServerResponse>();
  const remember = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    answers.set(incoming.socket, outgoing);
  };
  server.prependListener('request', remember);
  server.prependListener('checkContinue', remember);
  server.on('clientError', (error: Error, stream) => {
    const socket = stream as Socket;
    const answer = answers.get(socket);
    const underWay = answer?.headersSent === true && !answer.writableFinished;
    // After a finished answer the rest of its body may still arrive: nobody waits for a second answer to it.
    const bodyOfAnswered = answer?.writableFinished === true && !answer.req.complete;
    if (!socket.writable || underWay || bodyOfAnswered || errorCode(error) === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    const requestId = nextId();
    const text = JSON.stringify(
      errorEnvelope(requestId, '400-01', [{ path: 'request', message: problemOf(error) }]),
    );
    socket.end(
      'HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n' +
        `${REQUEST_ID_HEADER}: ${requestId}\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
  });
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
