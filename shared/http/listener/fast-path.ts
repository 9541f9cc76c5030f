import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { AnswerHeaders, ServedBindings } from '../env.ts';
import type { Connections } from './connections.ts';
import { type FastRequest, readFastRequest } from './fast-request.ts';

export interface FastPathOptions {
  readonly fetch: (request: Request, env: Partial<ServedBindings>) => Response | Promise<Response>;
  readonly connections: Connections;
  /** Milliseconds that a connection may be idle, which answers report. */
  readonly keepAliveMs: number;
  /** Milliseconds after which a connection is closed whose caller does not read its answer. */
  readonly stallMs: number;
  /** Returns the answer to a request whose answer cannot be produced. */
  readonly onError: () => Response;
}

interface ArrivedRequest {
  readonly socket: Socket;
  readonly request: FastRequest;
  /** Ends the count of the request on its connection. */
  readonly end: () => void;
  readonly onAnswered: (isLast: boolean) => void;
}

/**
 * Serves plain requests (see {@link readFastRequest}) of connections that have shown a valid key,
 * without the objects of Node's HTTP server, which take about half of the time of a small request.
 * Node's parser does not see these requests, so it regards their connection as idle. Therefore a
 * connection has no other request meanwhile, and the listener waits for {@link idle} before it
 * closes. The first request of each connection is always Node's, whose timeouts need it.
 */
export class FastPath {
  private readonly options: FastPathOptions;
  private readonly keepAlive: string;
  private readonly date = new DateHeader();
  /** The requests of this turn of the event loop that are not served yet. */
  private arrived: ArrivedRequest[] = [];
  private open = 0;
  private isStopped = false;
  private onIdle: () => void = () => {};

  constructor(options: FastPathOptions) {
    this.options = options;
    this.keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(options.keepAliveMs / 1000)}\r\n\r\n`;
  }

  /**
   * Serves the bytes if they are one plain request, and calls `onAnswered` when the system has taken
   * the answer. `isLast`: the answer has announced the end of the connection. Returns false for all
   * other bytes, which Node's parser must get.
   */
  serve(socket: Socket, bytes: Buffer, onAnswered: (isLast: boolean) => void): boolean {
    if (this.isStopped) return false;
    const request = readFastRequest(bytes);
    const end = request && this.options.connections.admitFast(socket, request.headers.get('x-forwarded-for'));
    if (!request || !end) return false;
    this.open += 1;
    if (this.arrived.length === 0) setImmediate(this.serveArrived);
    this.arrived.push({ socket, request, end, onAnswered });
    return true;
  }

  /**
   * Serves the requests that arrived in this turn of the event loop, one after another. Served
   * between the system calls that read them, each takes a fifth more time: a system call leaves
   * little of the code in the processor's caches.
   */
  private readonly serveArrived = (): void => {
    const { arrived } = this;
    this.arrived = [];
    for (const { socket, request, end, onAnswered } of arrived) {
      void this.answer(socket, request).then((isLast) => {
        end();
        onAnswered(isLast);
        this.open -= 1;
        if (this.open === 0) this.onIdle();
      });
    }
  };

  /** Serves no further requests. Resolves when those in flight are answered. */
  stop(): Promise<void> {
    this.isStopped = true;
    return new Promise((resolve) => {
      this.onIdle = resolve;
      if (this.open === 0) resolve();
    });
  }

  /** Returns whether the answer has announced the end of the connection. */
  private async answer(socket: Socket, request: FastRequest): Promise<boolean> {
    const { fetch, onError } = this.options;
    const headers: AnswerHeaders = {};
    try {
      const response = await fetch(request as unknown as Request, {
        body: request.body,
        answerHeaders: headers,
      });
      const body = headers['content-length'] === '0' || response.status === 204 ? '' : await response.text();
      return await this.write(socket, response.status, headers, body);
    } catch {
      const response = onError();
      return await this.write(
        socket,
        response.status,
        Object.fromEntries(response.headers),
        await response.text(),
      );
    }
  }

  private write(
    socket: Socket,
    status: number,
    headers: AnswerHeaders,
    body: string,
  ): boolean | Promise<boolean> {
    // The caller has gone.
    if (!socket.writable) return false;
    let text = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
    for (const name in headers) text += `${name}: ${headers[name]}\r\n`;
    if (status !== 204 && headers['content-length'] === undefined)
      text += `content-length: ${Buffer.byteLength(body)}\r\n`;
    text += this.date.line();
    const isLast = this.isStopped;
    text += isLast ? 'Connection: close\r\n\r\n' : this.keepAlive;
    // Headers are ASCII.
    if (body === '') socket.write(text, 'latin1');
    else socket.write(text + body);
    return socket.writableLength === 0 ? isLast : this.whenTaken(socket).then(() => isLast);
  }

  /** Resolves when the system has taken the answer, or the connection is closed. */
  private async whenTaken(socket: Socket): Promise<void> {
    const idleMs = socket.timeout ?? 0;
    socket.setTimeout(this.options.stallMs);
    await new Promise<void>((resolve) => socket.write('', () => resolve()));
    socket.setTimeout(idleMs);
  }
}

/** The Date header, which changes once per second. */
class DateHeader {
  private second = 0;
  private text = '';

  line(): string {
    const nowMs = Date.now();
    const second = Math.floor(nowMs / 1000);
    if (second !== this.second) {
      this.second = second;
      this.text = `Date: ${new Date(nowMs).toUTCString()}\r\n`;
    }
    return this.text;
  }
}
