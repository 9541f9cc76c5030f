import cluster from 'node:cluster';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Counts } from '../../counts.ts';
import { HEALTH_PATHS } from '../health.ts';
import type { OpenAnswers } from './open-answers.ts';
import { closeUnread } from './unread-answers.ts';

export interface ConnectionBounds {
  /** Maximum number of connections, not counting those reserved for health checks. */
  readonly connectionsMax: number;
  /**
   * Maximum number of connections per address or, with trusted proxies, of open requests per
   * address.
   */
  readonly perAddressMax: number;
  /** Number of proxies in front of this process whose `X-Forwarded-For` is trusted. */
  readonly trustedHops: number;
  /** Milliseconds without a byte after which a connection that has shown no valid key is closed. */
  readonly keylessIdleMs: number;
  /** Milliseconds without a byte after which any other connection with an open request is closed. */
  readonly stallMs: number;
  /** Called for each connection or request that these limits refuse. */
  readonly onRefused: (refused: RefusedConnection) => void;
}

export interface RefusedConnection {
  /** The limit that was reached: that of all connections, or that of one address. */
  readonly reason: 'all' | 'address';
  /** The address; for IPv6 its /64 network. */
  readonly address: string;
}

/** The decision about a request: serve, close its connection, or refuse with 503-01. */
export type Admission = 'serve' | 'destroy' | 'busy';

/** Connections above the limit, reserved for health checks. */
const HEALTH_CONNECTIONS_MAX = 20;
const HEALTH_CONNECTIONS_PER_ADDRESS_MAX = 4;
/** Lifetime of such a connection in milliseconds. */
const HEALTH_CONNECTION_MS = 2000;
/**
 * Factor of the idle timeout after which a connection without a valid key is closed, even if it
 * sends requests.
 */
const KEYLESS_LIFE_IDLE_TIMES = 4;
/**
 * Factor of the idle timeout after which such a connection is closed without a further request. At
 * that age only a caller that sends parts of a request, or blank lines, is still connected.
 */
const KEYLESS_END_IDLE_TIMES = 6;

interface Connection {
  readonly address: string;
  /** Whether the connection is reserved for a health check. */
  readonly isForHealth: boolean;
  isKeyShown: boolean;
  /** Whether the connection is closed as soon as it has no open request. */
  isOverdue: boolean;
  /** Time of {@link performance.now} at which the connection was opened. */
  readonly openedAtMs: number;
}

/**
 * Limits the connections, in total and per address. A few more are accepted briefly, so that health
 * checks do not report a full process as dead. Any other request on such a connection closes it
 * without a response.
 */
export class Connections {
  private readonly answers: OpenAnswers;
  private readonly bounds: ConnectionBounds;
  private readonly known = new WeakMap<Socket, Connection>();
  private readonly usual = new Counts();
  private readonly forHealth = new Counts();
  private readonly openRequests = new Counts();
  /** Whether proxies are in front. Without trusted proxies, a connection belongs to one caller. */
  private readonly isBehindProxies: boolean;

  constructor(server: Server, answers: OpenAnswers, bounds: ConnectionBounds) {
    this.answers = answers;
    this.bounds = bounds;
    this.isBehindProxies = bounds.trustedHops > 0;
    // In a process of node:cluster, Node would not drop a connection over this maximum, but pass it
    // from process to process without end.
    if (!cluster.isWorker) server.maxConnections = bounds.connectionsMax + HEALTH_CONNECTIONS_MAX;
    server.on('drop', (data) => {
      bounds.onRefused({ reason: 'all', address: partyOf(data?.remoteAddress) });
    });
    server.on('connection', (socket: Socket) => this.onConnection(socket));
    closeUnread(server);
  }

  /** Returns the number of open connections. */
  open(): number {
    return this.usual.total + this.forHealth.total;
  }

  /** Decides about a request, and counts it as open. */
  admit(request: IncomingMessage, answer: ServerResponse): Admission {
    const connection = this.known.get(request.socket);
    if (connection === undefined) return 'destroy';
    if (connection.isForHealth) {
      if (!isHealthCheck(request)) return 'destroy';
      answer.setHeader('connection', 'close');
      return 'serve';
    }
    if (!connection.isKeyShown) this.limitKeyless(connection, request.socket, answer);
    return this.isBehindProxies ? this.admitForwarded(connection, request, answer) : 'serve';
  }

  /**
   * Decides whether a request may be served on the fast path, and counts it as open. Returns a
   * function that ends it, or undefined if {@link admit} must decide.
   */
  admitFast(socket: Socket, forwardedFor: string | null): (() => void) | undefined {
    const connection = this.known.get(socket);
    if (!connection?.isKeyShown || connection.isForHealth) return undefined;
    if (!this.isBehindProxies) return endNothing;
    const { trustedHops, perAddressMax } = this.bounds;
    const address = partyOf(forwardedAddress(forwardedFor ?? '', trustedHops) ?? connection.address);
    if (this.openRequests.of(address) >= perAddressMax) return undefined;
    this.openRequests.add(address);
    return () => this.openRequests.remove(address);
  }

  /** Records that a request has shown a valid key. Its connection may then stay idle for longer. */
  onKeyShown(socket: Socket): void {
    const connection = this.known.get(socket);
    if (!connection || connection.isKeyShown) return;
    connection.isKeyShown = true;
    socket.setTimeout(this.bounds.stallMs);
  }

  /**
   * Returns the idle timeout of a connection in seconds if that differs from the server's timeout.
   */
  idleSeconds(socket: Socket): number | undefined {
    return this.isKeyless(socket) ? Math.floor(this.bounds.keylessIdleMs / 1000) : undefined;
  }

  /** Sets the idle timeout after the last open response of a connection was written. */
  onIdle(socket: Socket): void {
    const { keylessIdleMs } = this.bounds;
    const connection = this.known.get(socket);
    if (!connection || connection.isKeyShown) return;
    // Requests that were received before the end may be answered after it; they must not end the
    // connection again.
    if (connection.isOverdue && socket.writable) socket.destroySoon();
    // At this point, Node has set the server's keep-alive timeout.
    else socket.setTimeout(keylessIdleMs);
  }

  private onConnection(socket: Socket): void {
    const { connectionsMax, perAddressMax, onRefused } = this.bounds;
    const address = partyOf(socket.remoteAddress);
    const openedAtMs = performance.now();
    if (this.usual.total >= connectionsMax) {
      onRefused({ reason: 'all', address });
      const ownMax = this.isBehindProxies ? HEALTH_CONNECTIONS_MAX : HEALTH_CONNECTIONS_PER_ADDRESS_MAX;
      const isFull = this.forHealth.total >= HEALTH_CONNECTIONS_MAX;
      if (isFull || this.forHealth.of(address) >= ownMax) socket.destroy();
      else
        this.accept(socket, { address, isForHealth: true, isKeyShown: false, isOverdue: false, openedAtMs });
    } else if (!this.isBehindProxies && this.usual.of(address) >= perAddressMax) {
      onRefused({ reason: 'address', address });
      socket.destroy();
    } else {
      this.accept(socket, {
        address,
        isForHealth: false,
        isKeyShown: this.isBehindProxies,
        isOverdue: false,
        openedAtMs,
      });
    }
  }

  private accept(socket: Socket, connection: Connection): void {
    const counts = connection.isForHealth ? this.forHealth : this.usual;
    counts.add(connection.address);
    socket.once('close', () => counts.remove(connection.address));
    this.known.set(socket, connection);
    if (!connection.isKeyShown) {
      const { keylessIdleMs } = this.bounds;
      socket.setTimeout(keylessIdleMs);
      callWhileOpen(socket, KEYLESS_END_IDLE_TIMES * keylessIdleMs, () => {
        connection.isOverdue = true;
        if (this.answers.hasNone(socket)) this.onIdle(socket);
      });
    }
    if (connection.isForHealth) callWhileOpen(socket, HEALTH_CONNECTION_MS, () => socket.destroy());
  }

  private limitKeyless(connection: Connection, socket: Socket, answer: ServerResponse): void {
    const { keylessIdleMs } = this.bounds;
    // Node set the server's timeout when the request began.
    socket.setTimeout(keylessIdleMs);
    const ageMs = performance.now() - connection.openedAtMs;
    if (ageMs > KEYLESS_LIFE_IDLE_TIMES * keylessIdleMs) answer.setHeader('connection', 'close');
  }

  private admitForwarded(
    connection: Connection,
    request: IncomingMessage,
    answer: ServerResponse,
  ): Admission {
    const { trustedHops, perAddressMax, onRefused } = this.bounds;
    const forwarded = forwardedAddress(forwardedFor(request), trustedHops);
    const address = partyOf(forwarded ?? connection.address);
    if (this.openRequests.of(address) >= perAddressMax && !isHealthCheck(request)) {
      onRefused({ reason: 'address', address });
      return 'busy';
    }
    this.openRequests.add(address);
    this.answers.add(request.socket, answer, () => this.openRequests.remove(address));
    return 'serve';
  }

  private isKeyless(socket: Socket): boolean {
    return this.known.get(socket)?.isKeyShown === false;
  }
}

/** Calls a function after a time, unless the connection is closed before that. */
function callWhileOpen(socket: Socket, ms: number, call: () => void): void {
  const timer = setTimeout(call, ms).unref();
  socket.once('close', () => clearTimeout(timer));
}

const HEALTH_URLS: readonly (string | undefined)[] = Object.values(HEALTH_PATHS);

function isHealthCheck({ method, url }: IncomingMessage): boolean {
  return method === 'GET' && HEALTH_URLS.includes(url);
}

/**
 * Returns the unit that is counted as one address: an IPv4 address, or the /64 network of an IPv6
 * address. One host can use any address of its /64 network.
 */
function partyOf(address = ''): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return `${(parsed as ipaddr.IPv6).parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')}::/64`;
}

function forwardedFor({ headers }: IncomingMessage): string {
  const forwarded = headers['x-forwarded-for'];
  return Array.isArray(forwarded) ? forwarded.join() : (forwarded ?? '');
}

function endNothing(): void {}

/**
 * Returns the address that the outermost trusted proxy saw, from `X-Forwarded-For`; undefined if
 * the header does not hold one.
 */
function forwardedAddress(forwardedFor: string, hops: number): string | undefined {
  const addresses = forwardedFor.split(',');
  const item = addresses.at(-hops)?.trim() ?? '';
  // Some proxies append the caller's port, and then put an IPv6 address in brackets.
  const [, v6, v4] = /^(?:\[(.*)\](?::\d+)?|([^:]*):\d+)$/.exec(item) ?? [];
  const address = v6 ?? v4 ?? item;
  return ipaddr.isValid(address) ? address : undefined;
}
