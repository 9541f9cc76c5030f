import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { closeLingering } from './lingering-close.ts';

/** Answers of one connection that may be open at once, before reading stops until some were written. */
const OPEN_ANSWERS_MAX = 32;
/** Of all connections, beyond one of each. Past it every connection has one answer at a time. */
const PIPELINED_ANSWERS_MAX = 1024;
/** The blank line at the end of a request's headers. */
const HEAD_END = Buffer.from('\r\n\r\n');
/** Where the shortest request (`GET / HTTP/1.1`) has it. */
const HEAD_END_AT_MIN = 14;
/** Of a chunked body at least: where it ends is known by the parser alone. Of one that nobody reads yet, no more. */
const CHUNKED_BYTES = 512;
/** At most, so that chunks of one byte leave others their turn. */
const CHUNKED_READ_BYTES = 4096;

/**
 * What is read of a body whose request is answered already, so that the connection can be used again. Where the length is
 * known, that costs little.
 */
const UNREAD_BYTES_MAX = 128 * 1024 * 1024;
/** The same of a chunked body, with its framing: three times the largest body that any operation takes, and more. */
const UNREAD_CHUNKED_BYTES_MAX = 16 * 1024 * 1024;
/**
 * Line ends in it: each chunk has two, and takes some 2 µs to parse however few bytes it has. Those of the content count
 * too. Not the time that parsing took: on a busy machine that would close connections of honest callers.
 */
const UNREAD_LINE_ENDS_MAX = 50_000;
const LINE_END = Buffer.from('\r\n');

/** What one connection may parse before others have their turn: 64 KiB hold 11,000 chunks. */
const TURN_MS = 5;

type Parse = (bytes: Buffer) => void;

interface Reading {
  readonly socket: Socket;
  readonly parse: Parse;
  /** Answers that are not written yet. */
  open: number;
  /** The last request of which the parser has the headers. */
  request: IncomingMessage | undefined;
  answer: ServerResponse | undefined;
  /** Bytes of its body that came after it was answered. */
  unreadBytes: number;
  /** Where it is chunked: the line ends in them. */
  unreadLineEnds: number;
  /** Bytes of its body that are not parsed yet; undefined where it is chunked. */
  bodyBytesLeft: number | undefined;
  /** Whether reading was paused here: until an answer is written, or for others' turn. */
  waiting: boolean;
  /** The turn of the event loop in which it was parsed last. */
  turn: number;
  /** What still comes is thrown away: malformed, not HTTP any more, or more than is read after an answer. */
  ended: boolean;
  /** The connection is to be closed once its open answers were written. */
  closing: boolean;
}

/** Bounds what is parsed of requests ahead of the answers to those before them, and of bodies after their own answer. */
export interface Pipelining {
  /** Called by the listeners of all requests, with the parser on the stack. */
  onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void;
  /** Called once for each of them, when its answer was written or the connection ended. */
  onAnswered(socket: Socket): void;
}

/**
 * Hands each connection's bytes to Node's parser in slices that hold the headers of one request at most, and stops while
 * too many answers are open. Node parses all that it read of a connection (64 KiB, 3600 requests) before it looks at
 * what waits; each of them takes a few KiB, and so do 65,536 chunks of one byte that nobody asked for yet.
 *
 * Node's own listener of `data` is called with the slices. Without it Node reads past JavaScript, which nothing can stop
 * in time; that costs a request about 15 µs.
 */
export function boundPipelining(server: Server): Pipelining {
  const readings = new WeakMap<Socket, Reading>();
  let pipelined = 0;
  /** Connections that have more to parse, one after another: each has a turn of the event loop for itself. */
  const queue = new Set<Reading>();
  let turn = 0;
  let served: Reading | undefined;
  let scheduled = false;

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      turn += 1;
      [served] = queue;
      if (served === undefined) return;
      queue.delete(served);
      schedule();
      goOn(served);
    });
  }

  server.on('connection', (socket: Socket) => {
    const [parse] = socket.listeners('data') as Parse[];
    if (parse === undefined) return;
    socket.removeListener('data', parse);
    const reading: Reading = {
      socket,
      parse,
      open: 0,
      request: undefined,
      answer: undefined,
      unreadBytes: 0,
      unreadLineEnds: 0,
      bodyBytesLeft: 0,
      waiting: false,
      turn: -1,
      ended: false,
      closing: false,
    };
    readings.set(socket, reading);
    // Node calls it after an answer that closes the connection.
    const destroySoon = socket.destroySoon.bind(socket);
    socket.destroySoon = () => {
      if (!isInBody(reading) || reading.ended) return destroySoon();
      reading.ended = true;
      closeLingering(socket);
    };
    socket.on('data', (bytes) => read(reading, bytes));
  });
  const end = (socket: Socket) => {
    const reading = readings.get(socket);
    if (reading) reading.ended = true;
  };
  server.prependListener('clientError', (_error, socket) => end(socket as Socket));
  server.prependListener('connect', (_request, socket) => end(socket as Socket));

  function read(reading: Reading, bytes: Buffer): void {
    const { socket } = reading;
    schedule();
    // One request of a connection is parsed in any turn; for more it waits until the turn is its own.
    const mayBegin = reading.turn !== turn || served === reading;
    const endAtMs = served === reading ? performance.now() + TURN_MS : 0;
    let at = 0;
    while (at < bytes.length && !reading.ended && !socket.destroyed) {
      // A pause of Node's (a body or an answer piles up) is Node's to end: its listener must not be called before.
      const paused = socket.isPaused();
      const mayGoOn = isInBody(reading) || mayOpen(reading);
      // The rest of a body of known length is parsed in one go.
      const isLong = !reading.bodyBytesLeft && (at === 0 ? !mayBegin : performance.now() > endAtMs);
      reading.waiting = !paused && (!mayGoOn || isLong);
      if (reading.waiting) socket.pause();
      if (reading.waiting && mayGoOn) queue.add(reading);
      if (paused || reading.waiting) {
        socket.unshift(at === 0 ? bytes : bytes.subarray(at));
        return;
      }
      const slice = at === 0 ? bytes : bytes.subarray(at);
      const length = sliceLength(reading, slice);
      const { request } = reading;
      reading.turn = turn;
      const isUnread = reading.answer?.writableEnded === true;
      const parsed = length === slice.length ? slice : slice.subarray(0, length);
      reading.parse(parsed);
      if (request === reading.request) countBody(reading, parsed, isUnread);
      at += length;
      if (isUnwanted(reading)) socket.pause();
    }
  }

  function countBody(reading: Reading, parsed: Buffer, isUnread: boolean): void {
    if (reading.bodyBytesLeft) reading.bodyBytesLeft -= parsed.length;
    if (!isUnread || !isInBody(reading)) return;
    reading.unreadBytes += parsed.length;
    const isChunked = reading.bodyBytesLeft === undefined;
    if (isChunked) reading.unreadLineEnds += lineEnds(parsed);
    const bytesMax = isChunked ? UNREAD_CHUNKED_BYTES_MAX : UNREAD_BYTES_MAX;
    if (reading.unreadBytes <= bytesMax && reading.unreadLineEnds <= UNREAD_LINE_ENDS_MAX) return;
    reading.ended = true;
    reading.closing = true;
    closeAnswered(reading);
  }

  function mayOpen({ open }: Reading): boolean {
    return open === 0 || (open < OPEN_ANSWERS_MAX && pipelined < PIPELINED_ANSWERS_MAX);
  }

  return {
    onRequest(incoming, outgoing) {
      const reading = readings.get(incoming.socket);
      if (!reading) return;
      reading.open += 1;
      if (reading.open > 1) pipelined += 1;
      reading.request = incoming;
      reading.answer = outgoing;
      reading.unreadBytes = 0;
      reading.unreadLineEnds = 0;
      const isChunked = incoming.headers['transfer-encoding'] !== undefined;
      reading.bodyBytesLeft = isChunked ? undefined : Number(incoming.headers['content-length'] ?? 0);
    },
    onAnswered(socket) {
      const reading = readings.get(socket);
      if (!reading) return;
      if (reading.open > 1) pipelined -= 1;
      reading.open -= 1;
      closeAnswered(reading);
      // In a turn of its own: reading and answering by turns would otherwise never leave this one.
      if (reading.waiting) {
        queue.add(reading);
        schedule();
      }
    },
  };
}

function closeAnswered(reading: Reading): void {
  if (!reading.closing || reading.open > 0 || reading.socket.destroyed) return;
  reading.closing = false;
  closeLingering(reading.socket);
}

function goOn(reading: Reading): void {
  if (!reading.waiting) return;
  reading.waiting = false;
  reading.socket.resume();
}

/** Whether what comes next belongs to a request that is counted already. */
function isInBody({ request, bodyBytesLeft }: Reading): boolean {
  return bodyBytesLeft === undefined ? request?.complete === false : bodyBytesLeft > 0;
}

function lineEnds(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(LINE_END); at !== -1; at = bytes.indexOf(LINE_END, at + LINE_END.length))
    count += 1;
  return count;
}

/** How much of the bytes to parse: the rest of a body, or up to the next blank line, which headers and chunks end with. */
function sliceLength(reading: Reading, all: Buffer): number {
  let bytes = all;
  let from = HEAD_END_AT_MIN;
  if (isInBody(reading)) {
    if (reading.bodyBytesLeft !== undefined) return Math.min(bytes.length, reading.bodyBytesLeft);
    if (!reading.request?.readableFlowing) return Math.min(bytes.length, CHUNKED_BYTES);
    from = CHUNKED_BYTES - HEAD_END.length;
    bytes = bytes.subarray(0, CHUNKED_READ_BYTES);
  }
  const at = bytes.indexOf(HEAD_END, from);
  return at === -1 ? bytes.length : at + HEAD_END.length;
}

/** Whether chunks of a body pile up that nobody reads yet. Node resumes the connection when somebody does. */
function isUnwanted({ request, bodyBytesLeft }: Reading): boolean {
  if (request === undefined || bodyBytesLeft !== undefined) return false;
  return !request.complete && !request.readableFlowing && request.readableLength > 0;
}
