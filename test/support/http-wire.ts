import { once } from 'node:events';
import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

/**
 * One HTTP/1.1 answer, parsed strictly from the bytes of a connection without an HTTP client
 * library.
 */
export interface Answer {
  readonly status: number;
  /** Names in lower case; repeated ones joined by `, `. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

export type WireProblem = 'closed' | 'timeout' | 'malformed';

/** The reason why no answer could be read. */
export class WireError extends Error {
  override readonly name = 'WireError';
  readonly problem: WireProblem;

  constructor(problem: WireProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}

/** A connection on which the test writes bytes and reads the answers one by one. */
export interface Wire {
  write(bytes: string | Buffer): void;
  /** Ends our side of the connection. */
  end(): void;
  /**
   * Resolves with the next answer, including interim answers (1xx). `head`: the answer has no body,
   * whatever its headers declare.
   */
  next(timeoutMs: number, head?: boolean): Promise<Answer>;
  /**
   * Resolves with whether the other side closes within the time. Received bytes count as `false`.
   */
  closes(timeoutMs: number): Promise<boolean>;
  /** Returns the bytes received that are not yet a whole answer. */
  rest(): Buffer;
  /** Returns the code of the socket's error, such as `ECONNRESET`. */
  error(): string | undefined;
  isOpen(): boolean;
  destroy(): void;
}

/** Connects to the URL; rejects if the connection is refused. */
export async function openWire(url: string): Promise<Wire> {
  const { protocol, hostname, port } = new URL(url);
  const secure = protocol === 'https:';
  const host = hostname.replace(/^\[|\]$/g, '');
  const socket: Socket = secure
    ? connectTls({ host, port: Number(port || 443), servername: host })
    : connectPlain(Number(port || 80), host);
  await once(socket, secure ? 'secureConnect' : 'connect');
  socket.setNoDelay(true);
  let received: Buffer = Buffer.alloc(0);
  let ended = false;
  let failure: string | undefined;
  let wake = () => {};
  socket.on('data', (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    wake();
  });
  const onEnd = () => {
    ended = true;
    wake();
  };
  socket.on('end', onEnd).on('close', onEnd);
  socket.on('error', (error: NodeJS.ErrnoException) => {
    failure ??= error.code ?? error.message;
    onEnd();
  });

  /** Resolves when bytes arrived or the connection ended; resolves with false on timeout. */
  const changed = (ms: number): Promise<boolean> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.max(0, ms), false);
      wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });

  return {
    write(bytes) {
      if (!socket.destroyed) socket.write(bytes);
    },
    end: () => {
      socket.end();
    },
    async next(timeoutMs, head = false) {
      const deadline = Date.now() + timeoutMs;
      for (;;) {
        const parsed = parseAnswer(received, head, ended);
        if (parsed) {
          received = received.subarray(parsed.bytes);
          return parsed.answer;
        }
        if (ended) {
          const left = received.length === 0 ? '' : ` in the middle of an answer: ${shown(received)}`;
          throw new WireError(
            left === '' ? 'closed' : 'malformed',
            `the connection ended${left}${failure ? ` (${failure})` : ''}`,
          );
        }
        if (!(await changed(deadline - Date.now()))) {
          throw new WireError('timeout', `no answer within ${timeoutMs} ms; received: ${shown(received)}`);
        }
      }
    },
    async closes(timeoutMs) {
      const deadline = Date.now() + timeoutMs;
      while (!ended && received.length === 0) {
        if (!(await changed(deadline - Date.now()))) return false;
      }
      return ended && received.length === 0;
    },
    rest: () => received,
    error: () => failure,
    isOpen: () => !ended && !socket.destroyed,
    destroy: () => {
      socket.destroy();
    },
  };
}

const HEADERS_END = Buffer.from('\r\n\r\n');
const STATUS_LINE = /^HTTP\/1\.1 ([1-5][0-9]{2}) [\t -~]*$/;
const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*$/;

/**
 * Parses the answer at the start of the bytes. Returns the answer and its length; undefined if it
 * is incomplete.
 */
export function parseAnswer(
  bytes: Buffer,
  head: boolean,
  ended: boolean,
): { answer: Answer; bytes: number } | undefined {
  const headersEnd = bytes.indexOf(HEADERS_END);
  if (headersEnd === -1) return undefined;
  const [statusLine = '', ...lines] = bytes.subarray(0, headersEnd).toString('latin1').split('\r\n');
  const status = Number(STATUS_LINE.exec(statusLine)?.[1]);
  if (!status) throw new WireError('malformed', `not a status line: ${JSON.stringify(statusLine)}`);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const header = HEADER.exec(line);
    if (!header) throw new WireError('malformed', `not a header: ${JSON.stringify(line)}`);
    const name = header[1]!.toLowerCase();
    const before = headers.get(name);
    headers.set(name, before === undefined ? header[2]! : `${before}, ${header[2]}`);
  }
  const start = headersEnd + HEADERS_END.length;
  const answer = (body: Buffer, end: number) => ({
    answer: { status, headers, body: body.toString('utf8') },
    bytes: end,
  });
  if (head || status < 200 || status === 204 || status === 304) return answer(Buffer.alloc(0), start);
  const coding = headers.get('transfer-encoding');
  const length = headers.get('content-length');
  if (coding !== undefined) {
    if (coding !== 'chunked' || length !== undefined)
      throw new WireError('malformed', 'framing of the answer');
    const chunks = parseChunks(bytes, start);
    return chunks && answer(chunks.body, chunks.end);
  }
  if (length === undefined) return ended ? answer(bytes.subarray(start), bytes.length) : undefined;
  if (!/^[0-9]+$/.test(length)) throw new WireError('malformed', `content-length ${length}`);
  const end = start + Number(length);
  return bytes.length < end ? undefined : answer(bytes.subarray(start, end), end);
}

function parseChunks(bytes: Buffer, start: number): { body: Buffer; end: number } | undefined {
  const chunks: Buffer[] = [];
  let at = start;
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const size = bytes.subarray(at, lineEnd).toString('latin1');
    if (!/^[0-9a-fA-F]+$/.test(size)) throw new WireError('malformed', `chunk size ${JSON.stringify(size)}`);
    const end = lineEnd + 2 + Number.parseInt(size, 16);
    if (bytes.length < end + 2) return undefined;
    if (bytes.subarray(end, end + 2).toString('latin1') !== '\r\n') {
      throw new WireError('malformed', 'a chunk does not end where its size says');
    }
    if (end === lineEnd + 2) return { body: Buffer.concat(chunks), end: end + 2 };
    chunks.push(bytes.subarray(lineEnd + 2, end));
    at = end + 2;
  }
}

function shown(bytes: Buffer): string {
  return JSON.stringify(bytes.subarray(0, 200).toString('latin1'));
}
