import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Server as TcpServer } from 'node:net';
import { getRequestListener, RequestError } from '@hono/node-server';
import type { SettingName } from '../../config/config.ts';
import type { IdGenerator } from '../../ids.ts';
import type { ServedBindings } from '../env.ts';
import { countUnparsable, type ListenerName } from '../request-metrics.ts';
import { bind } from './bind.ts';
import { countRefused, reportConnections } from './connection-metrics.ts';
import { type ConnectionBounds, Connections, type RefusedConnection } from './connections.ts';
import { FastPath } from './fast-path.ts';
import { OpenAnswers } from './open-answers.ts';
import { Pipelining } from './pipelining.ts';
import { headersProblem, neutralizeHeaders } from './request-headers.ts';
import { answerUnparsable, refusal, refuseBusy } from './unparsable.ts';

export interface ListenOptions {
  readonly fetch: (request: Request, env: Partial<ServedBindings>) => Response | Promise<Response>;
  readonly host: string;
  /** The port; 0 picks a free one. */
  readonly port: number;
  /** The name of the port's setting, for error messages. */
  readonly portSetting: SettingName;
  /** The listener's name in the metrics of connections and of requests that the app does not get. Default: not counted. */
  readonly listener?: ListenerName;
  /** Generates the ids of requests that cannot be parsed. */
  readonly nextId: IdGenerator;
  /** Milliseconds within which a request must have arrived completely. Default 120,000. */
  readonly requestTimeoutMs?: number;
  /** Maximum number of connections; above it only health checks are served. Default 5000. */
  readonly connectionsMax?: number;
  /**
   * Maximum number of connections per address (for IPv6: per /64). Default: a tenth of all
   * connections.
   */
  readonly connectionsPerAddressMax?: number;
  /**
   * Number of proxies in front of this process whose `X-Forwarded-For` is trusted. Default 0. With
   * trusted proxies, the limit per address applies to the open requests of each forwarded address,
   * not to connections. Connections then stay open without a valid key.
   */
  readonly trustedHops?: number;
  /** Milliseconds that a connection which has shown a valid key may be idle. Default 620,000. */
  readonly keepAliveMs?: number;
  /** Milliseconds that a connection which has shown no valid key may be idle. Default 15,000. */
  readonly keylessIdleMs?: number;
  /** Called for each connection or request that these limits refuse. */
  readonly onRefused?: (refused: RefusedConnection) => void;
  /**
   * Milliseconds without a byte in either direction after which a connection with an open request
   * is closed. If the caller does not read its responses, bytes that it sends do not count. Default
   * 75,000.
   */
  readonly stallTimeoutMs?: number;
  /**
   * Milliseconds that `close` waits for requests in flight before it closes their connections.
   * Default 10,000.
   */
  readonly closeTimeoutMs?: number;
}

export interface HttpServer {
  readonly host: string;
  readonly port: number;
  /** Adds `Connection: close` to all further responses, so that callers move to another process. */
  startDraining(): void;
  /** Stops accepting. Resolves when requests in flight are answered, or after `closeTimeoutMs`. */
  close(): Promise<void>;
  /** Closes all connections immediately. */
  destroy(): void;
}

/** Maximum bytes of request line and headers. */
const HEADER_BYTES_MAX = 16 * 1024;
const HEADERS_TIMEOUT_MS = 15_000;
const CONNECTIONS_MAX = 5000;
const CHECK_TIMEOUTS_MS = 5000;
/** Longer than the usual load balancers' (600 s): closing first could lose a request. */
const KEEP_ALIVE_MS = 620_000;
const KEYLESS_IDLE_MS = 15_000;
const REQUEST_TIMEOUT_MS = 120_000;
const STALL_TIMEOUT_MS = 75_000;
const CLOSE_TIMEOUT_MS = 10_000;
/**
 * Bytes that a stream buffers before it pauses its source. Small, because each chunk of one byte
 * takes about 400 bytes of memory. Does not slow down a stream that is being read.
 */
const STREAM_BYTES_MAX = 1024;
/** Milliseconds between two checks for idle connections while the server closes. */
const CLOSE_IDLE_MS = 100;

/**
 * Serves an app over HTTP/1.1. Rejects with AppError `LISTEN_FAILED` if the port is in use or the
 * host is not an address of this machine.
 */
export async function listen(options: ListenOptions): Promise<HttpServer> {
  const listener = new Listener(options);
  await listener.listen();
  return listener;
}

class Listener implements HttpServer {
  host = '';
  port = 0;
  private readonly server: Server;
  private readonly options: ListenOptions;
  private readonly answers: OpenAnswers;
  private readonly fastPath: FastPath;
  private readonly pipelining: Pipelining;
  private readonly connections: Connections;
  private readonly handle: (request: IncomingMessage, answer: ServerResponse) => Promise<unknown>;
  private readonly countUnparsable: () => void;
  private isDraining = false;

  constructor(options: ListenOptions) {
    this.options = options;
    this.server = createHttpServer(options);
    this.countUnparsable = countUnparsable(options.listener);
    this.answers = new OpenAnswers(this.server);
    this.connections = new Connections(this.server, this.answers, connectionBounds(options));
    if (options.listener) reportConnections(options.listener, this.connections);
    this.fastPath = new FastPath({
      fetch: options.fetch,
      connections: this.connections,
      keepAliveMs: options.keepAliveMs ?? KEEP_ALIVE_MS,
      stallMs: options.stallTimeoutMs ?? STALL_TIMEOUT_MS,
      onError: () => refusal(options.nextId(), '500-01'),
    });
    this.pipelining = new Pipelining(this.server, this.fastPath);
    this.handle = getRequestListener(
      (request, { incoming, outgoing }) =>
        this.answer(request, incoming as IncomingMessage, outgoing as ServerResponse),
      {
        // Clients may omit the Host header. The name has no effect.
        hostname: 'localhost',
        // Node discards the unread rest of a body, within the limits of request-body.ts. The
        // adapter would destroy the connection after 500 ms, and a caller that is still sending
        // would receive a reset instead of its response.
        autoCleanupIncoming: false,
        errorHandler: (error) =>
          error instanceof RequestError
            ? this.refuseUnparsable('target is malformed')
            : refusal(options.nextId(), '500-01'),
      },
    );
    // The last two events let the app decide whether it accepts a body announced with `Expect`.
    // Without listeners, Node would request the body itself.
    for (const event of ['request', 'checkContinue', 'checkExpectation'] as const) {
      this.server.on(event, (request, answer) => this.serve(request, answer));
    }
    answerUnparsable(this.server, this.answers, options.nextId, this.countUnparsable);
  }

  async listen(): Promise<void> {
    const { address, port } = await bind(this.server, this.options);
    this.host = address;
    this.port = port;
  }

  startDraining(): void {
    this.isDraining = true;
    void this.fastPath.stop();
  }

  async close(): Promise<void> {
    const { server } = this;
    this.isDraining = true;
    const timeout = setTimeout(
      () => server.closeAllConnections(),
      this.options.closeTimeoutMs ?? CLOSE_TIMEOUT_MS,
    );
    // Stops accepting. The method of Node's HTTP server would also close idle connections, and it
    // regards those with requests on the fast path as idle.
    const closed = new Promise<void>((resolve) => TcpServer.prototype.close.call(server, () => resolve()));
    await Promise.race([this.fastPath.stop(), closed]);
    server.close();
    // A response that was written while its body arrived has no `Connection: close`. Its connection
    // becomes idle later.
    const closingIdle = setInterval(() => server.closeIdleConnections(), CLOSE_IDLE_MS);
    for (const socket of this.answers.unused()) socket.destroy();
    await closed;
    clearInterval(closingIdle);
    clearTimeout(timeout);
  }

  destroy(): void {
    this.server.closeAllConnections();
  }

  private serve(request: IncomingMessage, answer: ServerResponse): void {
    const { socket } = request;
    if (socket.destroyed) return;
    const admission = this.connections.admit(request, answer);
    if (admission === 'destroy') {
      socket.destroy();
      return;
    }
    neutralizeHeaders(request);
    this.pipelining.onRequest(request, answer);
    this.answers.add(socket, answer, () => {
      this.pipelining.onAnswered(socket);
      if (this.answers.hasNone(socket)) this.connections.onIdle(socket);
    });
    if (admission === 'busy') refuseBusy(answer, this.options.nextId());
    else void this.handle(request, answer);
  }

  private async answer(
    request: Request,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<Response> {
    const { options } = this;
    const problem = headersProblem(incoming);
    const response =
      problem === undefined
        ? await options.fetch(request, {
            incoming,
            outgoing,
            onKeyShown: () => this.connections.onKeyShown(incoming.socket),
          })
        : this.refuseUnparsable(problem);
    if (mustClose(incoming, this.isDraining)) outgoing.setHeader('connection', 'close');
    else reportKeepAlive(outgoing, this.connections.idleSeconds(incoming.socket));
    return response;
  }

  private refuseUnparsable(problem: string): Response {
    this.countUnparsable();
    return refusal(this.options.nextId(), '400-01', problem);
  }
}

function createHttpServer(options: ListenOptions): Server {
  const { requestTimeoutMs = REQUEST_TIMEOUT_MS } = options;
  const server = createServer({
    maxHeaderSize: HEADER_BYTES_MAX,
    requireHostHeader: false,
    headersTimeout: Math.min(HEADERS_TIMEOUT_MS, requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_TIMEOUTS_MS, requestTimeoutMs),
    keepAliveTimeout: options.keepAliveMs ?? KEEP_ALIVE_MS,
    highWaterMark: STREAM_BYTES_MAX,
  });
  server.setTimeout(options.stallTimeoutMs ?? STALL_TIMEOUT_MS);
  return server;
}

function connectionBounds(options: ListenOptions): ConnectionBounds {
  const { connectionsMax = CONNECTIONS_MAX, keylessIdleMs = KEYLESS_IDLE_MS } = options;
  const { stallTimeoutMs: stallMs = STALL_TIMEOUT_MS, keepAliveMs = KEEP_ALIVE_MS } = options;
  return {
    connectionsMax,
    perAddressMax: options.connectionsPerAddressMax ?? Math.ceil(connectionsMax / 10),
    trustedHops: options.trustedHops ?? 0,
    keylessIdleMs: Math.min(keylessIdleMs, stallMs, keepAliveMs),
    stallMs,
    onRefused: countRefused(options.listener, options.onRefused),
  };
}

/**
 * Reports the keep-alive time of this connection in the response if it is shorter than the time
 * that Node reports.
 */
function reportKeepAlive(outgoing: ServerResponse, idleSeconds: number | undefined): void {
  if (idleSeconds === undefined || !outgoing.shouldKeepAlive || outgoing.hasHeader('connection')) return;
  outgoing.setHeader('connection', 'keep-alive');
  outgoing.setHeader('keep-alive', `timeout=${idleSeconds}`);
}

/**
 * Returns whether the connection must close after the response. Draining does not close a
 * connection while a body arrives: that would reset the connection, and the caller may lose its
 * response. If a caller announced a body that was not requested, the body may or may not follow, so
 * the connection cannot be reused.
 */
function mustClose(incoming: IncomingMessage, isDraining: boolean): boolean {
  if (incoming.headers.expect !== undefined && !incoming.readableDidRead) return true;
  return isDraining && incoming.complete;
}
