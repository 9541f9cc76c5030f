import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import { HEALTH_PATHS } from '../health.ts';
import type { OpenAnswers } from './open-answers.ts';

export interface ConnectionBounds {
  /** Connections at most, those of the health checks' room not counted. */
  readonly connectionsMax: number;
  /** Of one address; where proxies are trusted, open requests of one address instead. */
  readonly perAddressMax: number;
  /** Proxies in front whose `X-Forwarded-For` is believed. */
  readonly trustedHops: number;
  /** Milliseconds without a byte after which a connection that has shown no valid key is cut. */
  readonly keylessIdleMs: number;
  /** The same for all others while a request is open. */
  readonly stallMs: number;
  /** Called for each connection or request that is refused. */
  readonly onRefused: (refused: RefusedConnection) => void;
}

export interface RefusedConnection {
  readonly reason: 'all' | 'address';
  /** Of IPv6 the network (/64), which is what one party has. */
  readonly address: string;
}

/** What the bounds make of a request: serve it, or end its connection, or refuse it. */
export type Admission = 'serve' | 'destroy' | 'busy';

export interface Connections {
  admit(incoming: IncomingMessage, outgoing: ServerResponse): Admission;
  /** A valid key came with a request of the connection. */
  onKeyShown(socket: Socket): void;
  /** Seconds that the caller may keep the connection idle, where they differ from the usual ones. */
  idleSeconds(socket: Socket): number | undefined;
  /** Called when the last open answer of a connection was written. */
  onIdle(socket: Socket): void;
}

/** Connections past the most, for health checks alone. */
const HEALTH_ROOM = 20;
const HEALTH_ROOM_PER_ADDRESS = 4;
/** A connection without a valid key is closed after so many times its idle time, also if it sends requests. */
const KEYLESS_LIFE_TIMES = 4;
/** In which a health check must have come. */
const HEALTH_ROOM_MS = 2000;

interface Connection {
  readonly address: string;
  readonly forHealth: boolean;
  keyShown: boolean;
  /** By {@link performance.now}. */
  readonly openedAtMs: number;
}

/**
 * Bounds connections, in all and of one address. Past the most a few more are taken for a moment, so that a health check
 * does not take a full process for a dead one: anything else that they ask ends them unanswered.
 */
export function boundConnections(
  server: Server,
  answers: OpenAnswers,
  bounds: ConnectionBounds,
): Connections {
  const { connectionsMax, perAddressMax, trustedHops } = bounds;
  const known = new WeakMap<Socket, Connection>();
  const usual = createCounts();
  const forHealth = createCounts();
  const requests = createCounts();
  const ownsConnections = trustedHops === 0;
  server.maxConnections = connectionsMax + HEALTH_ROOM;
  server.on('drop', (data) => {
    bounds.onRefused({ reason: 'all', address: partyOf(data?.remoteAddress) });
  });

  server.on('connection', (socket: Socket) => {
    const address = partyOf(socket.remoteAddress);
    const openedAtMs = performance.now();
    if (usual.total() < connectionsMax) {
      const own = ownsConnections ? perAddressMax : connectionsMax;
      if (usual.of(address) >= own) return refuse(socket, 'address', address);
      return take(socket, { address, forHealth: false, keyShown: !ownsConnections, openedAtMs });
    }
    bounds.onRefused({ reason: 'all', address });
    const own = ownsConnections ? HEALTH_ROOM_PER_ADDRESS : HEALTH_ROOM;
    if (forHealth.of(address) >= own) return void socket.destroy();
    take(socket, { address, forHealth: true, keyShown: false, openedAtMs });
    const timer = setTimeout(() => socket.destroy(), HEALTH_ROOM_MS).unref();
    socket.once('close', () => clearTimeout(timer));
  });

  function take(socket: Socket, connection: Connection): void {
    const counts = connection.forHealth ? forHealth : usual;
    counts.add(connection.address);
    socket.once('close', () => counts.remove(connection.address));
    known.set(socket, connection);
    if (!connection.keyShown) socket.setTimeout(bounds.keylessIdleMs);
  }

  function refuse(socket: Socket, reason: RefusedConnection['reason'], address: string): void {
    bounds.onRefused({ reason, address });
    socket.destroy();
  }

  return {
    admit(incoming, outgoing) {
      const { socket } = incoming;
      const connection = known.get(socket);
      if (connection === undefined) return 'destroy';
      if (connection.forHealth) {
        if (!isHealthCheck(incoming)) return 'destroy';
        outgoing.setHeader('connection', 'close');
        return 'serve';
      }
      // Node has put back the server's own timeout when the request began.
      if (!connection.keyShown) {
        socket.setTimeout(bounds.keylessIdleMs);
        const ageMs = performance.now() - connection.openedAtMs;
        if (ageMs > KEYLESS_LIFE_TIMES * bounds.keylessIdleMs) outgoing.setHeader('connection', 'close');
      }
      if (ownsConnections) return 'serve';
      const address = partyOf(forwardedAddress(incoming, trustedHops) ?? connection.address);
      if (requests.of(address) >= perAddressMax && !isHealthCheck(incoming)) {
        bounds.onRefused({ reason: 'address', address });
        return 'busy';
      }
      requests.add(address);
      answers.add(socket, outgoing, () => requests.remove(address));
      return 'serve';
    },
    onKeyShown(socket) {
      const connection = known.get(socket);
      if (!connection || connection.keyShown) return;
      connection.keyShown = true;
      socket.setTimeout(bounds.stallMs);
    },
    idleSeconds(socket) {
      return known.get(socket)?.keyShown === false ? Math.floor(bounds.keylessIdleMs / 1000) : undefined;
    },
    onIdle(socket) {
      // Node has just set the time of kept connections.
      if (known.get(socket)?.keyShown === false) socket.setTimeout(bounds.keylessIdleMs);
    },
  };
}

const HEALTH_URLS: readonly (string | undefined)[] = Object.values(HEALTH_PATHS);

function isHealthCheck({ method, url }: IncomingMessage): boolean {
  return method === 'GET' && HEALTH_URLS.includes(url);
}

/** The address that the outermost trusted proxy saw; undefined where the header does not have it. */
function forwardedAddress({ headers }: IncomingMessage, hops: number): string | undefined {
  const forwarded = headers['x-forwarded-for'];
  const addresses = (Array.isArray(forwarded) ? forwarded.join() : (forwarded ?? '')).split(',');
  // Some proxies add the caller's port, and then put IPv6 in brackets.
  const [, v6, v4] = /^(?:\[(.*)\](?::\d+)?|([^:]*):\d+)$/.exec(addresses.at(-hops)?.trim() ?? '') ?? [];
  const address = v6 ?? v4 ?? addresses.at(-hops)?.trim() ?? '';
  return ipaddr.isValid(address) ? address : undefined;
}

/** What counts as one address: of IPv6 the network of 64 bits, since one host can take any address in it. */
function partyOf(address = ''): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return `${(parsed as ipaddr.IPv6).parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')}::/64`;
}

function createCounts() {
  const counts = new Map<string, number>();
  let total = 0;
  return {
    total: () => total,
    of: (name: string) => counts.get(name) ?? 0,
    add(name: string): void {
      total += 1;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    },
    remove(name: string): void {
      total -= 1;
      const left = (counts.get(name) ?? 0) - 1;
      if (left > 0) counts.set(name, left);
      else counts.delete(name);
    },
  };
}
