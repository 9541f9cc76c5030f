import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { AppError } from '../errors.ts';
import { receivedBytes, type WebhookAgent } from './connect.ts';

export interface PostOptions {
  readonly agent: WebhookAgent;
  /** The absolute URL, http or https. */
  readonly url: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array;
  /**
   * Ends the exchange. If status and headers have not arrived, the exchange rejects with the
   * signal's reason.
   */
  readonly signal: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The first bytes of the response's body. */
  readonly start: Buffer;
}

/**
 * Maximum bytes of a response's body that are read so that its connection can be reused. A longer
 * body closes the connection.
 */
const BODY_READ_BYTES_MAX = 64 * 1024;
/**
 * Maximum milliseconds for which a response's body is read: an endless body must not hold the
 * exchange until its deadline.
 */
const BODY_READ_MS = 1000;
/** Bytes of a response's body that are kept. */
const BODY_KEPT_MAX = 1024;
/** Maximum bytes of any kind that a receiver can make one exchange read. */
const EXCHANGE_BYTES_MAX = 256 * 1024;

/**
 * Sends one POST and resolves with its response; follows no redirect. Only the status line and the
 * headers decide the result. The body may be truncated, malformed, endless or larger than a limit.
 * Interim answers (1xx) are skipped, even unsolicited ones. Rejects with an AppError
 * (`ANSWER_TOO_LONG`, or those of a dial) or with the error of the connection.
 */
export async function post(options: PostOptions): Promise<Answer> {
  return await new PostExchange(options).answer;
}

/** One POST and its response, from the start to the end of the exchange. */
class PostExchange {
  readonly answer: Promise<Answer>;
  private readonly signal: AbortSignal;
  private readonly request: ClientRequest;
  private response: IncomingMessage | undefined;
  private readonly kept: Buffer[] = [];
  private keptBytes = 0;
  private readBytes = 0;
  private bodyTimer: NodeJS.Timeout | undefined;
  private resolve: (answer: Answer) => void = () => {};
  private reject: (error: unknown) => void = () => {};
  private readonly abort = (): void => this.end(this.signal.reason);

  constructor({ agent, url, headers, body, signal }: PostOptions) {
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.signal = signal;
    this.request = agent.request(new URL(url), {
      method: 'POST',
      headers: { ...headers, 'content-length': body.byteLength },
    });
    signal.addEventListener('abort', this.abort, { once: true });
    if (signal.aborted) this.abort();
    this.request.on('error', (error) => this.end(error));
    this.request.on('close', () => this.end(new Error('the connection was closed')));
    this.request.on('socket', (socket) => this.meter(socket));
    this.request.on('response', (response) => this.read(response));
    // An unsolicited protocol upgrade has no body.
    this.request.on('upgrade', (response, socket) => {
      // The agent no longer owns the socket.
      socket.destroy();
      this.response = response;
      this.end();
    });
    this.request.end(body);
  }

  /** Ends the exchange; only the first end counts. A complete exchange leaves its connection open. */
  private end(error?: unknown): void {
    this.signal.removeEventListener('abort', this.abort);
    clearTimeout(this.bodyTimer);
    const { response } = this;
    if (!response?.complete || !this.request.writableFinished) this.request.destroy();
    if (response === undefined) this.reject(error);
    else {
      const { statusCode: status = 0, headers } = response;
      this.resolve({ status, headers, start: Buffer.concat(this.kept) });
    }
  }

  private read(response: IncomingMessage): void {
    this.response = response;
    this.bodyTimer = setTimeout(() => this.end(), BODY_READ_MS);
    response.on('data', (chunk: Buffer) => {
      const part = chunk.subarray(0, BODY_KEPT_MAX - this.keptBytes);
      if (part.length > 0) this.kept.push(Buffer.from(part));
      this.keptBytes += part.length;
      this.readBytes += chunk.length;
      if (this.readBytes >= BODY_READ_BYTES_MAX) this.end();
    });
    response.on('end', () => this.end());
    response.on('error', (error) => this.end(error));
  }

  /** Ends the exchange when the connection has received {@link EXCHANGE_BYTES_MAX}. */
  private meter(socket: Socket): void {
    const before = receivedBytes(socket);
    const check = (): void => {
      if (receivedBytes(socket) - before <= EXCHANGE_BYTES_MAX) return;
      this.end(new AppError('ANSWER_TOO_LONG', `the answer is longer than ${EXCHANGE_BYTES_MAX / 1024} KiB`));
    };
    // Apart from data, TLS carries sessions to resume, in any number.
    for (const event of ['data', 'session']) {
      socket.on(event, check);
      this.request.once('close', () => socket.off(event, check));
    }
  }
}
