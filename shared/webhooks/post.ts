import { AppError } from '../errors.ts';
import { type AnswerHead, AnswerParser } from './answer-parser.ts';
import type { WebhookAgent } from './connect.ts';
import type { Connection, ConnectionUser } from './connection.ts';
import { Timing } from './timing.ts';

export interface PostOptions {
  readonly agent: WebhookAgent;
  /** The absolute URL, http or https. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /**
   * Milliseconds after which the exchange ends. If status and headers have not arrived, it rejects
   * with an AppError `ANSWER_TIMEOUT`. A timer costs less than a signal per exchange.
   */
  readonly deadlineMs: number;
  /** Measures the parts of the exchange. */
  readonly timing?: Timing;
}

export interface Answer extends AnswerHead {
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
/** A body up to this size is copied, to be sent together with its headers. */
const COPIED_MAX = 16 * 1024;
/** The characters that a header's value may have. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Sends one POST and resolves with its response; follows no redirect. Only the status line and the
 * headers decide the result. The body may be truncated, malformed, endless or larger than a limit.
 * Interim answers (1xx) are skipped, even unsolicited ones. Rejects with an AppError
 * (`ANSWER_TOO_LONG`, `ANSWER_TIMEOUT`, or those of a dial) or with the error of the connection.
 */
export async function post(options: PostOptions): Promise<Answer> {
  return await new PostExchange(options).answer;
}

/** One POST and its response, from the start to the end of the exchange. */
class PostExchange implements ConnectionUser {
  readonly answer: Promise<Answer>;
  private readonly options: PostOptions;
  private readonly timing: Timing;
  private readonly parser = new AnswerParser((part) => this.keep(part));
  private connection: Connection | undefined;
  private bytesBefore = 0;
  private readonly kept: Buffer[] = [];
  private keptBytes = 0;
  private readBytes = 0;
  private bodyTimer: NodeJS.Timeout | undefined;
  private readonly deadlineTimer: NodeJS.Timeout;
  private ended = false;
  private resolve: (answer: Answer) => void = () => {};
  private reject: (error: unknown) => void = () => {};

  constructor(options: PostOptions) {
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.options = options;
    this.timing = options.timing ?? new Timing();
    const { agent, deadlineMs } = options;
    const url = new URL(options.url);
    this.deadlineTimer = setTimeout(() => this.endLate(), deadlineMs);
    const connection = agent.connect(url, this.timing);
    if (connection instanceof Promise) {
      connection.then(
        (opened) => this.start(opened, url),
        (error) => this.end(error),
      );
    } else {
      this.start(connection, url);
    }
  }

  onData(bytes: Buffer): void {
    this.timing.end();
    const headBefore = this.parser.head;
    try {
      this.parser.push(bytes);
    } catch (error) {
      this.end(error);
      return;
    }
    if (this.parser.complete || this.readBytes >= BODY_READ_BYTES_MAX) this.end();
    else {
      if (!headBefore && this.parser.head) this.bodyTimer = setTimeout(() => this.end(), BODY_READ_MS);
      this.onSession();
    }
  }

  /** Ends the exchange when the connection has received {@link EXCHANGE_BYTES_MAX}. */
  onSession(): void {
    if (this.connection!.receivedBytes - this.bytesBefore <= EXCHANGE_BYTES_MAX) return;
    this.end(new AppError('ANSWER_TOO_LONG', `the answer is longer than ${EXCHANGE_BYTES_MAX / 1024} KiB`));
  }

  onClose(error?: Error): void {
    this.parser.close();
    this.end(error ?? Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' }));
  }

  private start(connection: Connection, url: URL): void {
    if (this.ended) {
      connection.release(undefined);
      return;
    }
    this.connection = connection;
    this.bytesBefore = connection.receivedBytes;
    this.timing.begin('answer');
    try {
      connection.begin(this, requestOf(url, this.options));
    } catch (error) {
      this.end(error);
    }
  }

  private keep(part: Buffer): void {
    const kept = part.subarray(0, BODY_KEPT_MAX - this.keptBytes);
    if (kept.length > 0) this.kept.push(Buffer.from(kept));
    this.keptBytes += kept.length;
    this.readBytes += part.length;
  }

  private endLate(): void {
    const { deadlineMs } = this.options;
    this.end(new AppError('ANSWER_TIMEOUT', `no complete answer within ${deadlineMs} ms`));
  }

  /** Ends the exchange; only the first end counts. A complete exchange leaves its connection open. */
  private end(error?: unknown): void {
    if (this.ended) return;
    this.ended = true;
    clearTimeout(this.deadlineTimer);
    clearTimeout(this.bodyTimer);
    const { connection, parser } = this;
    const { head } = parser;
    if (parser.reusable && connection?.isFlushed) connection.release(head?.headers['keep-alive']);
    else connection?.destroy();
    if (head === undefined) this.reject(error);
    else this.resolve({ ...head, start: Buffer.concat(this.kept) });
  }
}

/** Returns the bytes of a request. */
function requestOf(url: URL, { headers, body }: PostOptions): readonly Uint8Array[] {
  let head = `POST ${url.pathname}${url.search} HTTP/1.1\r\n`;
  for (const name in headers) {
    const value = headers[name]!;
    if (!HEADER_VALUE.test(value)) throw new Error(`the header ${name} has an invalid character`);
    head += `${name}: ${value}\r\n`;
  }
  head += `content-length: ${body.byteLength}\r\nHost: ${url.host}\r\nConnection: keep-alive\r\n\r\n`;
  if (body.byteLength > COPIED_MAX) return [Buffer.from(head, 'latin1'), body];
  const bytes = Buffer.allocUnsafe(head.length + body.byteLength);
  bytes.write(head, 'latin1');
  bytes.set(body, head.length);
  return [bytes];
}
