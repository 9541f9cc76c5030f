import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { AppError } from '../errors.ts';
import { receivedBytes, type WebhookAgent } from './connect.ts';

export interface PostOptions {
  readonly agent: WebhookAgent;
  /** Absolute, http or https. */
  readonly url: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array;
  /**
   * Ends the exchange, which rejects with the signal's reason if no status and headers have
   * arrived.
   */
  readonly signal: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Its first bytes. */
  readonly start: Buffer;
}

/**
 * Bytes of an answer's body that are read, so that its connection can be used again; a longer body
 * closes it.
 */
const BODY_READ_BYTES_MAX = 64 * 1024;
/**
 * Milliseconds for which an answer's body is read: a body that never ends must not hold the
 * exchange until its deadline.
 */
const BODY_READ_MS = 1000;
/** Bytes of an answer's body that are kept. */
const BODY_KEPT_MAX = 1024;
/** Bytes that a receiver can make one exchange read, whatever they are. */
export const EXCHANGE_BYTES_MAX = 256 * 1024;

/**
 * Sends one POST and resolves with its answer; follows no redirect. The status line and the headers
 * decide: an answer whose body is cut short, is malformed, exceeds a bound or does not end counts
 * as it began. Interim answers (1xx) are skipped, even unsolicited ones. Rejects with an AppError
 * (`ANSWER_TOO_LONG`, or those of a dial) or with the error of the connection.
 */
export function post({ agent, url, headers, body, signal }: PostOptions): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = agent.request(new URL(url), {
      method: 'POST',
      headers: { ...headers, 'content-length': body.byteLength },
    });
    let answer: IncomingMessage | undefined;
    const kept: Buffer[] = [];
    let keptBytes = 0;
    let readBytes = 0;
    let bodyTimer: NodeJS.Timeout | undefined;

    const abort = () => end(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    request.on('error', end);
    request.on('close', () => end(new Error('the connection was closed')));
    request.on('socket', meter);
    request.on('response', read);
    // An unsolicited protocol upgrade has no body.
    request.on('upgrade', (response, socket) => {
      // The agent no longer owns the socket.
      socket.destroy();
      answer = response;
      end();
    });
    request.end(body);

    /** Only the first end counts. Leaves the connection open where the exchange is complete. */
    function end(error?: unknown): void {
      signal.removeEventListener('abort', abort);
      clearTimeout(bodyTimer);
      if (!answer?.complete || !request.writableFinished) request.destroy();
      if (answer === undefined) reject(error);
      else {
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, start: Buffer.concat(kept) });
      }
    }

    function read(response: IncomingMessage): void {
      answer = response;
      bodyTimer = setTimeout(end, BODY_READ_MS);
      response.on('data', (chunk: Buffer) => {
        const part = chunk.subarray(0, BODY_KEPT_MAX - keptBytes);
        if (part.length > 0) kept.push(Buffer.from(part));
        keptBytes += part.length;
        readBytes += chunk.length;
        if (readBytes >= BODY_READ_BYTES_MAX) end();
      });
      response.on('end', () => end());
      response.on('error', end);
    }

    function meter(socket: Socket): void {
      const before = receivedBytes(socket);
      const check = () => {
        if (receivedBytes(socket) - before <= EXCHANGE_BYTES_MAX) return;
        end(new AppError('ANSWER_TOO_LONG', `the answer is longer than ${EXCHANGE_BYTES_MAX / 1024} KiB`));
      };
      // Apart from data, TLS carries sessions to resume, in any number.
      for (const event of ['data', 'session']) {
        socket.on(event, check);
        request.once('close', () => socket.off(event, check));
      }
    }
  });
}
