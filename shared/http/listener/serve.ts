import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { getRequestListener, type HttpBindings, RequestError } from '@hono/node-server';
import type { SettingName } from '../../config/config.ts';
import { AppError, errorCode } from '../../errors.ts';
import type { IdGenerator } from '../../ids.ts';
import type { ServedBindings } from '../env.ts';
import { boundConnections, type RefusedConnection } from './connections.ts';
import { trackOpenAnswers } from './open-answers.ts';
import { boundPipelining } from './pipelining.ts';
import { answerUnparsable, refusal, refuseBusy } from './unparsable.ts';

export interface ListenOptions {
  readonly fetch: (request: Request, env: ServedBindings) => Response | Promise<Response>;
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** The setting to change when the port is taken. */
  readonly portSetting: SettingName;
  /** Names the requests that cannot be parsed. */
  readonly nextId: IdGenerator;
  /** Milliseconds in which a request must have arrived whole. Default 120,000. */
  readonly requestTimeoutMs?: number;
  /** Connections at most; past it new ones are closed, except for a moment those of health checks. Default 5000. */
  readonly connectionsMax?: number;
  /** Of one address (of IPv6: one /64). Default: a tenth of all. */
  readonly connectionsPerAddressMax?: number;
  /**
   * Proxies in front whose `X-Forwarded-For` is believed. Default 0. With any, connections are the proxy's: their number
   * per address is not bounded, that of open requests of one forwarded address is, and they are kept without a key.
   */
  readonly trustedHops?: number;
  /** Milliseconds that a connection which has shown a valid key may be idle. Default 620,000. */
  readonly keepAliveMs?: number;
  /** The same for those that have shown none. Default 15,000. */
  readonly keylessIdleMs?: number;
  /** Called for each connection or request that is refused for these bounds. */
  readonly onRefused?: (refused: RefusedConnection) => void;
  /**
   * Milliseconds after which a connection on which nothing moves is cut, in either direction: a caller that does not read its
   * answers must not hold it for ever. Default 75,000, above what idle connections get.
   */
  readonly stallTimeoutMs?: number;
  /** Milliseconds that `close` waits for requests under way before it cuts them. Default 10,000. */
  readonly closeTimeoutMs?: number;
}

export interface HttpServer {
  readonly host: string;
  readonly port: number;
  /** From now on answers say `Connection: close`, so that callers move to another process. */
  startDraining(): void;
  /**
   * Takes no new connections and resolves once the requests under way are answered. Those that do not arrive or end in
   * time are cut: a caller that stalls must not keep the process from stopping.
   */
  close(): Promise<void>;
  /** Cuts all connections at once. */
  destroy(): void;
}

/** Bytes of request line and headers at most. */
const HEADER_BYTES_MAX = 16 * 1024;
/** Node keeps the first 2000 and drops the others without a word; nobody has a use for so many. */
const HEADERS_MAX = 100;
const HEADERS_TIMEOUT_MS = 15_000;
const CONNECTIONS_MAX = 5000;
const CHECK_TIMEOUTS_MS = 5000;
/** Above the longest idle timeout of the usual load balancers (600 s), so that they and not we close an idle connection. */
const KEEP_ALIVE_MS = 620_000;
const KEYLESS_IDLE_MS = 15_000;
/**
 * Bytes that a stream keeps before it stops its source. Small: as segments or chunks of one byte each takes some 400
 * bytes. Nothing is slower for it where somebody reads.
 */
const STREAM_BYTES_MAX = 1024;
const CLOSE_IDLE_MS = 100;

/** Serves an app over HTTP/1.1. Rejects with AppError `LISTEN_FAILED` (port in use, host not ours). */
export async function listen(options: ListenOptions): Promise<HttpServer> {
  const { requestTimeoutMs = 120_000, closeTimeoutMs = 10_000, stallTimeoutMs = 75_000 } = options;
  const { connectionsMax = CONNECTIONS_MAX, keepAliveMs = KEEP_ALIVE_MS } = options;
  let draining = false;
  const server = createServer({
    maxHeaderSize: HEADER_BYTES_MAX,
    requireHostHeader: false,
    headersTimeout: Math.min(HEADERS_TIMEOUT_MS, requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_TIMEOUTS_MS, requestTimeoutMs),
    keepAliveTimeout: keepAliveMs,
    highWaterMark: STREAM_BYTES_MAX,
  });
  server.setTimeout(stallTimeoutMs);
  const answers = trackOpenAnswers(server);
  const pipelining = boundPipelining(server);
  const connections = boundConnections(server, answers, {
    connectionsMax,
    perAddressMax: options.connectionsPerAddressMax ?? Math.ceil(connectionsMax / 10),
    trustedHops: options.trustedHops ?? 0,
    keylessIdleMs: Math.min(options.keylessIdleMs ?? KEYLESS_IDLE_MS, stallTimeoutMs, keepAliveMs),
    stallMs: stallTimeoutMs,
    onRefused: options.onRefused ?? (() => {}),
  });
  const listener = getRequestListener(
    async (request, env) => {
      const { incoming, outgoing } = env as HttpBindings;
      const problem = headersProblem(incoming);
      const onKeyShown = () => connections.onKeyShown(incoming.socket);
      const response =
        problem === undefined
          ? await options.fetch(request, { incoming, outgoing, onKeyShown })
          : refusal(options.nextId(), '400-01', problem);
      if (mustClose(incoming, draining)) outgoing.setHeader('connection', 'close');
      else sayHowLongKept(outgoing, connections.idleSeconds(incoming.socket));
      return response;
    },
    {
      // A client of HTTP/1.0 sends no Host header; the name is used for nothing.
      hostname: 'localhost',
      // Node itself throws away what was not read of a body, within the bounds of pipelining.ts; the adapter would cut the
      // connection after 500 ms, and a caller still sending would see a reset instead of its answer.
      autoCleanupIncoming: false,
      errorHandler: (error) =>
        error instanceof RequestError
          ? refusal(options.nextId(), '400-01', 'target or Host header is malformed')
          : refusal(options.nextId(), '500-01'),
    },
  );
  const serveRequest = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { socket } = incoming;
    if (socket.destroyed) return;
    const admission = connections.admit(incoming, outgoing);
    if (admission === 'destroy') {
      socket.destroy();
      return;
    }
    pipelining.onRequest(incoming, outgoing);
    answers.add(socket, outgoing, () => {
      pipelining.onAnswered(socket);
      if (answers.of(socket).size === 0) connections.onIdle(socket);
    });
    if (admission === 'busy') refuseBusy(outgoing, options.nextId());
    else void listener(incoming, outgoing);
  };
  server.on('request', serveRequest);
  // Whether the body is wanted is decided behind the checks; without these Node would ask for it at once.
  server.on('checkContinue', serveRequest);
  server.on('checkExpectation', serveRequest);
  const silent = trackSilentConnections(server);
  answerUnparsable(server, options.nextId);
  await bind(server, options);
  const { address, port } = server.address() as AddressInfo;
  return {
    host: address,
    port,
    startDraining() {
      draining = true;
    },
    close: () =>
      new Promise((resolve) => {
        draining = true;
        // A connection whose last answer did not say `close` (its body was still arriving) becomes idle only later.
        const closingIdle = setInterval(() => server.closeIdleConnections(), CLOSE_IDLE_MS);
        const cut = setTimeout(() => server.closeAllConnections(), closeTimeoutMs);
        server.close(() => {
          clearInterval(closingIdle);
          clearTimeout(cut);
          resolve();
        });
        for (const socket of silent) socket.destroy();
      }),
    destroy: () => server.closeAllConnections(),
  };
}

/** What Node lets through, though it keeps a part of it only or parties on the way read it otherwise. */
function headersProblem({ rawHeaders }: IncomingMessage): string | undefined {
  if (rawHeaders.length > 2 * HEADERS_MAX) return `has more than ${HEADERS_MAX} headers`;
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  return hosts > 1 ? 'has more than one Host header' : undefined;
}

/** Says in the answer what Node does not know: that this connection is kept for a shorter time than others. */
function sayHowLongKept(outgoing: ServerResponse, idleSeconds: number | undefined): void {
  if (idleSeconds === undefined || !outgoing.shouldKeepAlive || outgoing.hasHeader('connection')) return;
  outgoing.setHeader('connection', 'keep-alive');
  outgoing.setHeader('keep-alive', `timeout=${idleSeconds}`);
}

/** Connections on which nothing was sent yet: Node does not count them as idle, and would wait for them for ever. */
function trackSilentConnections(server: Server): ReadonlySet<Socket> {
  const silent = new Set<Socket>();
  server.on('connection', (socket) => {
    silent.add(socket);
    socket.once('close', () => silent.delete(socket));
  });
  server.prependListener('request', ({ socket }) => silent.delete(socket));
  server.prependListener('checkContinue', ({ socket }) => silent.delete(socket));
  server.prependListener('checkExpectation', ({ socket }) => silent.delete(socket));
  return silent;
}

/**
 * Never while a body is still arriving: closing then resets the connection and the caller may lose its answer. But
 * after a body that we did not ask for: the caller may or may not send it, so the connection cannot be used again.
 */
function mustClose(incoming: IncomingMessage, draining: boolean): boolean {
  if (incoming.headers.expect !== undefined && !incoming.readableDidRead) return true;
  return draining && incoming.complete;
}

async function bind(server: Server, { host, port, portSetting }: ListenOptions): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      const reason = bindProblem(error, portSetting);
      reject(new AppError('LISTEN_FAILED', `cannot listen on ${host}:${port}: ${reason}`, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
  server.removeAllListeners('error');
  server.on('error', () => {});
}

function bindProblem(error: Error, portSetting: SettingName): string {
  const hostSetting = portSetting.replace('PORT', 'HOST');
  switch (errorCode(error)) {
    case 'EADDRINUSE':
      return `the port is in use; stop what uses it or set ${portSetting}`;
    case 'EACCES':
      return `this user may not use the port; set ${portSetting} to one from 1024`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `this machine has no such address; set ${hostSetting} to one that it has, or to 0.0.0.0 for all`;
    default:
      return `${error.message}; look at ${portSetting} and ${hostSetting}`;
  }
}
