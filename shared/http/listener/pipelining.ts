import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastPath } from './fast-path.ts';
import { isPlainHead } from './fast-request.ts';
import { closeLingering } from './lingering-close.ts';
import { RequestBody } from './request-body.ts';
import { TurnQueue } from './turn-queue.ts';

/**
 * Maximum number of open responses of one connection. At this limit, no further request of the
 * connection is parsed until a response is written.
 */
const OPEN_ANSWERS_MAX = 32;
/**
 * Maximum number of open responses of all connections, not counting one per connection. At this
 * limit, each connection has one at a time.
 */
const PIPELINED_ANSWERS_MAX = 1024;
/** The blank line at the end of a request's headers. */
const HEAD_END = Buffer.from('\r\n\r\n');
/** The offset of that blank line in the shortest request, `GET / HTTP/1.1`. */
const HEAD_END_AT_MIN = 14;
/** Milliseconds of parsing in a connection's own turn, since 64 KiB can hold 11,000 chunks. */
const TURN_MS = 5;

/** State that the connections of one server share. */
interface Shared {
  readonly turns: TurnQueue;
  readonly fastPath: FastPath;
  /** Open responses, not counting one per connection. */
  pipelinedAnswers: number;
}

/**
 * Limits how many requests of a connection are parsed before the earlier ones are answered. Also
 * limits how much of a body is parsed after its own response. Node's parser gets the bytes of a
 * connection in slices with the headers of at most one request. Without this class, Node parses all
 * bytes that it has read (64 KiB, up to 3600 requests) before it checks for backpressure. Each
 * request takes a few KiB of memory. A `data` listener passes the slices to Node's own `data`
 * listener. Without an additional listener, Node parses in C++ as it reads, which cannot be
 * interrupted. The listener costs about 15 µs per request.
 */
export class Pipelining {
  private readonly connections = new WeakMap<Socket, ConnectionParser>();
  private readonly shared: Shared;

  constructor(server: Server, fastPath: FastPath) {
    this.shared = { turns: new TurnQueue(), fastPath, pipelinedAnswers: 0 };
    server.on('connection', (socket: Socket) => {
      this.connections.set(socket, new ConnectionParser(socket, this.shared));
    });
    server.prependListener('clientError', (_error, socket) => this.connections.get(socket as Socket)?.end());
    server.prependListener('connect', (_request, socket) => this.connections.get(socket as Socket)?.end());
  }

  /** Counts a parsed request as unanswered. Called synchronously, before the next request is parsed. */
  onRequest(request: IncomingMessage, answer: ServerResponse): void {
    this.connections.get(request.socket)?.onRequest(request, answer);
  }

  /**
   * Tracks that a request's response was written or the connection closed. Called once for each
   * request.
   */
  onAnswered(socket: Socket): void {
    this.connections.get(socket)?.onAnswered();
  }
}

/** Passes the bytes of one connection to Node's parser. */
class ConnectionParser {
  private readonly socket: Socket;
  private readonly shared: Shared;
  private readonly parse: (bytes: Buffer) => void;
  /** Node's reactions to the end of the caller's side. They close the connection. */
  private readonly endings: readonly (() => void)[];
  private openAnswers = 0;
  /** The body of the request whose headers were parsed last. */
  private body: RequestBody | undefined;
  /** The number of the last turn of the event loop in which bytes were parsed. */
  private lastTurn = -1;
  /** Whether reading is paused until a response is written, or until the connection's turn. */
  private isWaiting = false;
  /**
   * Whether all requests so far were plain. Otherwise only Node's parser knows where the next
   * request begins, and the fast path could mistake a part of a request for a whole one.
   */
  private isPlain = true;
  /** Whether the open response is one of the fast path, which is alone on its connection. */
  private isOnFastPath = false;
  /**
   * Whether further bytes are discarded, because the connection is closing or no longer uses HTTP.
   */
  private isEnded = false;
  /** Whether the connection is closed as soon as its open responses are written. */
  private isClosing = false;
  /** Whether the caller has ended its side, and still waits for answers. */
  private isHalfClosed = false;

  constructor(socket: Socket, shared: Shared) {
    this.socket = socket;
    this.shared = shared;
    const [parse] = socket.listeners('data') as [(bytes: Buffer) => void];
    this.parse = parse;
    socket.removeListener('data', parse);
    socket.on('data', (bytes: Buffer) => this.read(bytes));
    this.endings = socket.listeners('end') as (() => void)[];
    socket.removeAllListeners('end');
    socket.on('end', () => {
      this.isHalfClosed = true;
      this.endIfAnswered();
    });
    this.lingerInBody();
  }

  /**
   * Makes Node close lingeringly after a response with `Connection: close`, while a body arrives.
   */
  private lingerInBody(): void {
    const { socket } = this;
    const destroySoon = socket.destroySoon.bind(socket);
    socket.destroySoon = () => {
      if (!this.body?.isArriving() || this.isEnded) return destroySoon();
      this.isEnded = true;
      closeLingering(socket);
    };
  }

  end(): void {
    this.isEnded = true;
  }

  onRequest(request: IncomingMessage, answer: ServerResponse): void {
    this.openAnswers += 1;
    if (this.openAnswers > 1) this.shared.pipelinedAnswers += 1;
    this.body = new RequestBody(request, answer);
  }

  private readonly onFastAnswered = (isLast: boolean): void => {
    this.isOnFastPath = false;
    if (isLast) this.closeAfterAnswers();
    this.onAnswered();
  };

  onAnswered(): void {
    if (this.openAnswers > 1) this.shared.pipelinedAnswers -= 1;
    this.openAnswers -= 1;
    this.closeIfAnswered();
    if (this.isHalfClosed) this.endIfAnswered();
    // Resuming here would alternate reading and responding without ever leaving this turn of the
    // event loop.
    if (this.isWaiting) this.shared.turns.add(this);
  }

  /** Continues reading, in the connection's own turn. */
  onTurn(): void {
    if (!this.isWaiting) return;
    this.isWaiting = false;
    this.socket.resume();
  }

  private read(bytes: Buffer): void {
    const { socket } = this;
    // The end of the connection was announced, so that the caller would get no answer.
    if (!socket.writable) return;
    const { turns } = this.shared;
    const turn = turns.current();
    const isServed = turns.isServed(this);
    // Every connection may parse one request per turn of the event loop, and more in its own turn.
    const mayBegin = this.lastTurn !== turn || isServed;
    if (mayBegin && this.serveFast(bytes)) {
      this.lastTurn = turn;
      return;
    }
    const endAtMs = isServed ? performance.now() + TURN_MS : 0;
    for (let at = 0; at < bytes.length && !this.isEnded && !socket.destroyed; ) {
      const rest = at === 0 ? bytes : bytes.subarray(at);
      // The rest of a body of known length is parsed in one slice.
      const isTurnOver =
        !this.body?.isArrivingWithLength() && (at === 0 ? !mayBegin : performance.now() > endAtMs);
      if (!this.mayParse(isTurnOver)) {
        socket.unshift(rest);
        return;
      }
      this.lastTurn = turn;
      at += this.parseSlice(rest);
    }
  }

  private serveFast(bytes: Buffer): boolean {
    const { socket } = this;
    const isIdle = this.openAnswers === 0 && this.body?.isArriving() === false && !this.isEnded;
    if (!isIdle || !this.isPlain || socket.isPaused()) return false;
    this.isOnFastPath = this.shared.fastPath.serve(socket, bytes, this.onFastAnswered);
    if (this.isOnFastPath) this.openAnswers = 1;
    return this.isOnFastPath;
  }

  /** Returns whether the parser may be called now; if not, reading is paused. */
  private mayParse(isTurnOver: boolean): boolean {
    const { socket } = this;
    // Node pauses a connection while data of a body or response accumulates. Its parser must not be
    // called until Node resumes.
    const isPausedByNode = socket.isPaused();
    const mayContinue = this.body?.isArriving() || this.mayOpenAnswer();
    this.isWaiting = !isPausedByNode && (!mayContinue || isTurnOver);
    if (this.isWaiting) {
      socket.pause();
      if (mayContinue) this.shared.turns.add(this);
    }
    return !isPausedByNode && !this.isWaiting;
  }

  private mayOpenAnswer(): boolean {
    if (this.openAnswers === 0) return true;
    if (this.isOnFastPath) return false;
    return this.openAnswers < OPEN_ANSWERS_MAX && this.shared.pipelinedAnswers < PIPELINED_ANSWERS_MAX;
  }

  /** Parses the next headers, or a part of a body. Returns the number of bytes parsed. */
  private parseSlice(bytes: Buffer): number {
    const { body } = this;
    const isHead = !body?.isArriving();
    const length = isHead ? headLength(bytes) : body!.sliceLength(bytes);
    const slice = length === bytes.length ? bytes : bytes.subarray(0, length);
    if (isHead && this.isPlain) this.isPlain = isPlainHead(slice);
    const isUnread = body?.isAnswered() ?? false;
    this.parse(slice);
    // Otherwise these bytes were the headers of another request.
    if (body !== undefined && body === this.body) {
      body.count(slice, isUnread);
      if (body.isTooLongToDiscard()) this.closeAfterAnswers();
    }
    if (this.body?.isPilingUp()) this.socket.pause();
    return length;
  }

  private closeAfterAnswers(): void {
    this.isEnded = true;
    this.isClosing = true;
    this.closeIfAnswered();
  }

  /**
   * Lets Node close a connection whose caller has ended its side, after the open answers. A request
   * that is incomplete at the end is refused immediately.
   */
  private endIfAnswered(): void {
    const isWaiting = this.openAnswers > 0 && !this.body?.isArriving();
    if (isWaiting || this.isEnded || this.socket.destroyed) return;
    this.isHalfClosed = false;
    for (const end of this.endings) end.call(this.socket);
  }

  private closeIfAnswered(): void {
    if (!this.isClosing || this.openAnswers > 0 || this.socket.destroyed) return;
    this.isClosing = false;
    closeLingering(this.socket);
  }
}

/**
 * Returns the number of bytes up to the end of the next headers; returns the number of all bytes if
 * the headers are incomplete.
 */
function headLength(bytes: Buffer): number {
  const at = bytes.indexOf(HEAD_END, HEAD_END_AT_MIN);
  return at === -1 ? bytes.length : at + HEAD_END.length;
}
