import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Minimum bytes of a chunked body that are parsed in one slice, since only the parser knows where
 * the body ends. This is also the maximum while the body is not being read.
 */
const CHUNKED_BYTES = 512;
/**
 * Maximum bytes of a chunked body that are parsed in one slice: 4 KiB hold 680 chunks of one byte.
 */
const CHUNKED_BYTES_MAX = 4096;
/** The line end of a chunk, then a blank line: the end of the body. */
const LAST_LINE_END = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');

/**
 * Maximum bytes of a body of known length that are read after its response. Such bytes are cheap to
 * parse.
 */
const UNREAD_BYTES_MAX = 128 * 1024 * 1024;
/**
 * Maximum bytes of a chunked body that are read after its response, including its framing: more
 * than three times the largest accepted body.
 */
const UNREAD_CHUNKED_BYTES_MAX = 16 * 1024 * 1024;
/**
 * Maximum line ends of a chunked body that are read after its response, including those of its
 * content. A chunk has two, and takes about 2 µs to parse, however small. The time itself is not
 * limited, because a busy machine would then close the connections of well-behaved callers.
 */
const UNREAD_LINE_ENDS_MAX = 50_000;

/** Tracks how much of a request's body was parsed. */
export class RequestBody {
  private readonly request: IncomingMessage;
  private readonly answer: ServerResponse;
  /** Bytes of the body that are not parsed yet; undefined for a chunked body. */
  private bytesLeft: number | undefined;
  /** Bytes that were parsed after the request was answered. */
  private unreadBytes = 0;
  /** Line ends among the unread bytes of a chunked body. */
  private unreadLineEnds = 0;

  constructor(request: IncomingMessage, answer: ServerResponse) {
    this.request = request;
    this.answer = answer;
    const isChunked = request.headers['transfer-encoding'] !== undefined;
    this.bytesLeft = isChunked ? undefined : Number(request.headers['content-length'] ?? 0);
  }

  /** Returns whether the next bytes of the connection belong to this body. */
  isArriving(): boolean {
    return this.bytesLeft === undefined ? !this.request.complete : this.bytesLeft > 0;
  }

  /** Returns whether the body's length is known and a part of it is still to come. */
  isArrivingWithLength(): boolean {
    return this.bytesLeft !== undefined && this.bytesLeft > 0;
  }

  isAnswered(): boolean {
    return this.answer.writableEnded;
  }

  /** Returns how many of these bytes to parse in one slice while the body is arriving. */
  sliceLength(bytes: Buffer): number {
    if (this.bytesLeft !== undefined) return Math.min(bytes.length, this.bytesLeft);
    if (!this.request.readableFlowing) return Math.min(bytes.length, CHUNKED_BYTES);
    const slice = bytes.subarray(0, CHUNKED_BYTES_MAX);
    const at = slice.indexOf(LAST_LINE_END, CHUNKED_BYTES - LAST_LINE_END.length);
    return at === -1 ? slice.length : at + LAST_LINE_END.length;
  }

  /** Counts parsed bytes of the body. `isUnread`: the request was already answered. */
  count(parsed: Buffer, isUnread: boolean): void {
    if (this.isArrivingWithLength()) this.bytesLeft! -= parsed.length;
    if (!isUnread || !this.isArriving()) return;
    this.unreadBytes += parsed.length;
    if (this.bytesLeft === undefined) this.unreadLineEnds += countLineEnds(parsed);
  }

  /**
   * Returns whether the bytes after the response exceed the limit, so that the connection should be
   * closed.
   */
  isTooLongToDiscard(): boolean {
    const bytesMax = this.bytesLeft === undefined ? UNREAD_CHUNKED_BYTES_MAX : UNREAD_BYTES_MAX;
    return this.unreadBytes > bytesMax || this.unreadLineEnds > UNREAD_LINE_ENDS_MAX;
  }

  /** Returns whether chunks accumulate because the body is not being read yet. */
  isPilingUp(): boolean {
    if (this.bytesLeft !== undefined) return false;
    const { complete, readableFlowing, readableLength } = this.request;
    return !complete && !readableFlowing && readableLength > 0;
  }
}

function countLineEnds(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(LINE_END); at !== -1; at = bytes.indexOf(LINE_END, at + LINE_END.length))
    count += 1;
  return count;
}
