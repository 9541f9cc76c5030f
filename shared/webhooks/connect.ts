import { constants } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import { AppError } from '../errors.ts';
import { Connection } from './connection.ts';
import { createDialer, type Destination, type Dialer, type DialOptions } from './dial.ts';
import type { Timing } from './timing.ts';

export interface AgentOptions extends DialOptions {
  /** Certificates to trust instead of the default ones, as PEM; used by tests. */
  readonly ca?: string;
}

/** The connections of all exchanges. */
export interface WebhookAgent {
  /**
   * Returns an idle connection to the origin of a URL, or a new one, of which the caller is the only
   * user. The address of a new connection is resolved and checked, and `timing` measures its parts.
   * Rejects with the errors of a dial, and with those of TLS.
   */
  connect(url: URL, timing: Timing): Connection | Promise<Connection>;
  /** Closes all connections. */
  destroy(): Promise<void>;
}

const HANDSHAKE_TIMEOUT_MS = 10_000;
/** Milliseconds between two searches for connections that were idle for too long. */
const SWEEP_MS = 1000;
/** Maximum number of origins whose TLS session is kept, to resume it. */
const SESSIONS_MAX = 100;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

/**
 * Returns the agent of all exchanges. Ignores proxies in the environment. Connections are not
 * limited here, because a slow receiver must not delay other endpoints of its origin. The number of
 * exchanges is limited instead.
 */
export function createAgent(options: AgentOptions): WebhookAgent {
  return new Agent(options);
}

class Agent implements WebhookAgent {
  private readonly dialer: Dialer;
  private readonly startTls: (destination: Destination, wire: Socket, origin: string) => Promise<TLSSocket>;
  /** Idle connections by origin; the one used last comes last. */
  private readonly idle = new Map<string, Connection[]>();
  private readonly connections = new Set<Connection>();
  private readonly sweeper: NodeJS.Timeout;
  private closed = false;

  constructor({ ca, ...dialOptions }: AgentOptions) {
    this.dialer = createDialer(dialOptions);
    this.startTls = createTls(ca);
    this.sweeper = setInterval(() => this.sweep(), SWEEP_MS);
    this.sweeper.unref();
  }

  connect(url: URL, timing: Timing): Connection | Promise<Connection> {
    return this.takeIdle(url.origin) ?? this.open(url, timing);
  }

  async destroy(): Promise<void> {
    this.closed = true;
    clearInterval(this.sweeper);
    this.dialer.close();
    for (const connection of [...this.connections]) connection.close();
  }

  private takeIdle(origin: string): Connection | undefined {
    const idle = this.idle.get(origin);
    for (let found = idle?.pop(); found; found = idle?.pop()) {
      if (found.isUsable(performance.now())) return found;
      found.destroy();
    }
    return undefined;
  }

  private async open(url: URL, timing: Timing): Promise<Connection> {
    const { protocol, origin } = url;
    const destination = destinationOf(url);
    const wire = await this.dialer.dial(destination, timing);
    let socket: Socket | TLSSocket = wire;
    if (protocol === 'https:') {
      timing.begin('tls');
      socket = await this.startTls(destination, wire, origin);
      timing.end();
    }
    const connection = new Connection({
      origin,
      socket,
      wire,
      onIdle: (idle) => this.addIdle(idle),
      onEnd: (ended) => this.remove(ended),
    });
    this.connections.add(connection);
    if (this.closed) connection.destroy();
    return connection;
  }

  private addIdle(connection: Connection): void {
    const idle = this.idle.get(connection.origin);
    if (idle) idle.push(connection);
    else this.idle.set(connection.origin, [connection]);
  }

  private remove(connection: Connection): void {
    this.connections.delete(connection);
    const idle = this.idle.get(connection.origin);
    const index = idle?.indexOf(connection) ?? -1;
    if (index !== -1) idle?.splice(index, 1);
    if (idle?.length === 0) this.idle.delete(connection.origin);
  }

  private sweep(): void {
    const nowMs = performance.now();
    for (const idle of [...this.idle.values()]) {
      for (const connection of [...idle]) if (!connection.isUsable(nowMs)) connection.destroy();
    }
  }
}

/** Returns the function that adds TLS to a connection, and resumes sessions. */
function createTls(ca: string | undefined): Agent['startTls'] {
  const secureContext = createSecureContext({
    // Each TLS 1.2 renegotiation costs a handshake, and a receiver can request any number of
    // renegotiations.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    ...(ca === undefined ? {} : { ca }),
  });
  const sessions = new Map<string, Buffer>();
  return ({ host }, wire, origin) =>
    new Promise((resolve, reject) => {
      const socket = connectTls({
        socket: wire,
        secureContext,
        host,
        servername: isIP(host) === 0 ? host : '',
        ALPNProtocols: ['http/1.1'],
        session: sessions.get(origin),
      });
      const timer = setTimeout(
        () =>
          socket.destroy(
            new AppError('CONNECT_TIMEOUT', `no TLS handshake within ${HANDSHAKE_TIMEOUT_MS} ms`, {
              retryable: true,
            }),
          ),
        HANDSHAKE_TIMEOUT_MS,
      );
      socket.on('session', (session) => {
        sessions.delete(origin);
        sessions.set(origin, session);
        if (sessions.size > SESSIONS_MAX) sessions.delete(sessions.keys().next().value!);
      });
      // Stays attached for the socket's whole life: without a listener, an error would end the
      // process.
      socket.on('error', (error) => {
        sessions.delete(origin);
        reject(error);
      });
      socket.once('close', () => {
        clearTimeout(timer);
        reject(Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' }));
      });
      socket.once('secureConnect', () => {
        clearTimeout(timer);
        resolve(socket);
      });
    });
}

function destinationOf({ protocol, hostname, port }: URL): Destination {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  return { protocol, host, port: port === '' ? DEFAULT_PORTS[protocol]! : Number(port) };
}
