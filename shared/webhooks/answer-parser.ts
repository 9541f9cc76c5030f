/** The status line and the headers of an answer. */
export interface AnswerHead {
  readonly status: number;
  /** Headers by name in lower case. The first one counts if a name is repeated. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The codes of errors, as of Node's parser. */
type ErrorCode = 'HPE_INVALID_CONSTANT' | 'HPE_HEADER_OVERFLOW' | 'HPE_INVALID_CHUNK_SIZE';

/** Maximum bytes of a status line with its headers. */
const HEAD_BYTES_MAX = 16 * 1024;
/** Maximum hexadecimal digits of a chunk's size. */
const CHUNK_DIGITS_MAX = 8;
const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: |\r?$)/;
const START = 'HTTP/';
const LF = 0x0a;
const CR = 0x0d;
const NO_BYTES = Buffer.alloc(0);

/**
 * Where the parser is: in a head; in a body of known length, without an end, or of chunks; after
 * the answer.
 */
type State =
  | 'head'
  | 'length'
  | 'unbounded'
  | 'chunk-size'
  | 'chunk-extension'
  | 'chunk'
  | 'trailer'
  | 'done';

/**
 * Parses the answer to a POST from the bytes of its connection. Skips interim answers (1xx), even
 * unsolicited ones. Does not limit the answer except its head. The caller limits the bytes.
 */
export class AnswerParser {
  /** Set as soon as status and headers have arrived. */
  head: AnswerHead | undefined;
  private state: State = 'head';
  private pending: Buffer = NO_BYTES;
  /** Bytes that are left of the body or chunk. */
  private left = 0;
  private digits = '';
  /** Whether the current line of the trailer is empty so far. */
  private lineIsEmpty = true;
  private keepsAlive = false;
  private readonly onBody: (part: Buffer) => void;

  constructor(onBody: (part: Buffer) => void) {
    this.onBody = onBody;
  }

  /** Whether the whole answer has arrived. */
  get complete(): boolean {
    return this.state === 'done';
  }

  /** Whether the connection can be used for the next request. */
  get reusable(): boolean {
    return this.complete && this.keepsAlive;
  }

  /** Parses the next bytes. Throws an Error with a code if they are not HTTP. */
  push(bytes: Buffer): void {
    let from = 0;
    while (from < bytes.length) {
      if (this.state === 'done') {
        // Bytes after the answer belong to no request.
        this.keepsAlive = false;
        return;
      }
      from = this.state === 'head' ? this.readHead(bytes.subarray(from), from) : this.readBody(bytes, from);
    }
  }

  /** Records that the connection was closed by the receiver. */
  close(): void {
    if (this.state === 'unbounded') this.state = 'done';
    this.keepsAlive = false;
  }

  /** Returns where the head ends in the bytes that begin at `from`. */
  private readHead(bytes: Buffer, from: number): number {
    const before = this.pending.length;
    const all = before === 0 ? bytes : Buffer.concat([this.pending, bytes]);
    const end = endOfHead(all);
    if (end === -1) {
      if (all.length > HEAD_BYTES_MAX) throw parseError('HPE_HEADER_OVERFLOW');
      if (!START.startsWith(all.toString('latin1', 0, START.length))) {
        throw parseError('HPE_INVALID_CONSTANT');
      }
      this.pending = Buffer.from(all);
      return from + bytes.length;
    }
    if (end > HEAD_BYTES_MAX) throw parseError('HPE_HEADER_OVERFLOW');
    this.pending = NO_BYTES;
    this.begin(all.toString('latin1', 0, end));
    return from + end - before;
  }

  private begin(text: string): void {
    const lines = text.split('\n');
    const match = STATUS_LINE.exec(lines[0]!);
    if (!match) throw parseError('HPE_INVALID_CONSTANT');
    const status = Number(match[2]);
    // 101 ends the use of HTTP, so it is the answer.
    if (status < 200 && status !== 101) return;
    const headers = headersOf(lines);
    this.head = { status, headers };
    this.keepsAlive = status !== 101 && keepsAlive(match[1]!, headers.connection);
    this.beginBody(status, headers);
  }

  private beginBody(status: number, headers: AnswerHead['headers']): void {
    const { 'transfer-encoding': encoding, 'content-length': length } = headers;
    if (status === 101 || status === 204 || status === 304) {
      this.state = 'done';
    } else if (encoding !== undefined) {
      this.state = /(^|,)\s*chunked\s*$/i.test(encoding) ? 'chunk-size' : 'unbounded';
      if (length !== undefined) this.keepsAlive = false;
    } else if (length !== undefined && /^\d{1,15}$/.test(length)) {
      this.left = Number(length);
      this.state = this.left === 0 ? 'done' : 'length';
    } else {
      this.state = 'unbounded';
    }
  }

  /** Reads a part of the body from `from` on, and returns where it ends. */
  private readBody(bytes: Buffer, from: number): number {
    switch (this.state) {
      case 'length':
      case 'chunk':
        return this.readPart(bytes, from);
      case 'chunk-size':
        return this.readChunkSize(bytes, from);
      case 'chunk-extension':
        return this.skipExtension(bytes, from);
      case 'trailer':
        return this.skipTrailer(bytes, from);
      default:
        this.onBody(bytes.subarray(from));
        return bytes.length;
    }
  }

  private readPart(bytes: Buffer, from: number): number {
    const end = Math.min(bytes.length, from + this.left);
    this.onBody(bytes.subarray(from, end));
    this.left -= end - from;
    if (this.left === 0) this.state = this.state === 'length' ? 'done' : 'chunk-size';
    return end;
  }

  /** Reads the digits of a chunk's size, after the end of the line of the previous chunk. */
  private readChunkSize(bytes: Buffer, from: number): number {
    let at = from;
    for (; at < bytes.length; at += 1) {
      const byte = bytes[at]!;
      if (this.digits === '' && (byte === CR || byte === LF)) continue;
      const digit = String.fromCharCode(byte);
      if (!/[0-9a-f]/i.test(digit)) {
        if (this.digits === '') throw parseError('HPE_INVALID_CHUNK_SIZE');
        this.state = 'chunk-extension';
        break;
      }
      this.digits += digit;
      if (this.digits.length > CHUNK_DIGITS_MAX) throw parseError('HPE_INVALID_CHUNK_SIZE');
    }
    return at;
  }

  private skipExtension(bytes: Buffer, from: number): number {
    const end = bytes.indexOf(LF, from);
    if (end === -1) return bytes.length;
    this.left = Number.parseInt(this.digits, 16);
    this.digits = '';
    this.state = this.left === 0 ? 'trailer' : 'chunk';
    this.lineIsEmpty = true;
    return end + 1;
  }

  private skipTrailer(bytes: Buffer, from: number): number {
    for (let at = from; at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (byte !== LF) {
        if (byte !== CR) this.lineIsEmpty = false;
      } else if (this.lineIsEmpty) {
        this.state = 'done';
        return at + 1;
      } else {
        this.lineIsEmpty = true;
      }
    }
    return bytes.length;
  }
}

/** Returns where the head ends, after its empty line; -1 if that has not arrived. */
function endOfHead(bytes: Buffer): number {
  const crlf = bytes.indexOf('\r\n\r\n', 0, 'latin1');
  const lf = bytes.indexOf('\n\n', 0, 'latin1');
  if (crlf === -1) return lf === -1 ? -1 : lf + 2;
  return lf === -1 || crlf < lf ? crlf + 4 : lf + 2;
}

function headersOf([, ...lines]: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = Object.create(null);
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const name = line.slice(0, colon).trim().toLowerCase();
    headers[name] ??= line.slice(colon + 1).trim();
  }
  return headers;
}

function keepsAlive(minorVersion: string, connection = ''): boolean {
  return minorVersion === '1' ? !/\bclose\b/i.test(connection) : /\bkeep-alive\b/i.test(connection);
}

function parseError(code: ErrorCode): Error {
  return Object.assign(new Error('the answer is not valid HTTP'), { code });
}
