import { constants } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createDialer, type Destination, type DialOptions } from './dial.ts';

export interface AgentOptions extends DialOptions {
  /** Certificates to trust instead of the default ones, as PEM; used by tests. */
  readonly ca?: string;
}

/** The connection pools of all exchanges: one for HTTP, one for HTTPS. */
export interface WebhookAgent {
  /** Begins a request on an idle connection, or on a new one. */
  request(url: URL, options: http.RequestOptions): http.ClientRequest;
  /** Closes all connections. */
  destroy(): Promise<void>;
}

type OnConnection = ((error: Error | null, socket: Duplex) => void) | undefined;

/**
 * Milliseconds after which an idle connection is closed. Shorter than the usual five seconds of
 * servers, so that no connection is used while the server closes it.
 */
const IDLE_MS = 4000;
const OPTIONS: https.AgentOptions = { keepAlive: true, timeout: IDLE_MS };

/** The TCP connections under the TLS connections. */
const wires = new WeakMap<Duplex, Socket>();

/**
 * Returns the agent of all exchanges. Ignores proxies in the environment. Connections are not
 * limited here, because a slow receiver must not delay other endpoints of its origin. The number of
 * exchanges is limited instead.
 */
export function createAgent({ ca, ...dialOptions }: AgentOptions): WebhookAgent {
  const { dial, close } = createDialer(dialOptions);
  const plain = new http.Agent(OPTIONS);
  const secure = new https.Agent({
    ...OPTIONS,
    // Each TLS 1.2 renegotiation costs a handshake, and a receiver can request any number of
    // renegotiations.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    ...(ca === undefined ? {} : { ca }),
  });
  // Resumes TLS sessions.
  const startTls = secure.createConnection.bind(secure);

  plain.createConnection = (options, callback) => {
    handOver(dial(destinationOf('http:', options)), callback);
    return undefined;
  };
  secure.createConnection = (options, callback) => {
    const destination = destinationOf('https:', options);
    const { host } = destination;
    const connection = dial(destination).then((wire) => {
      const tls = { socket: wire, servername: isIP(host) === 0 ? host : '', ALPNProtocols: ['http/1.1'] };
      const socket = startTls({ ...options, host, ...tls })!;
      // Without a listener, an error would end the process.
      socket.on('error', () => {});
      wires.set(socket, wire);
      return socket;
    });
    handOver(connection, callback);
    return undefined;
  };
  for (const agent of [plain, secure]) {
    agent.on('free', (socket: Duplex) => socket.once('data', hangUp));
  }

  return {
    request(url, options) {
      const request =
        url.protocol === 'https:'
          ? https.request(url, { ...options, agent: secure })
          : http.request(url, { ...options, agent: plain });
      request.once('socket', (socket) => socket.off('data', hangUp));
      return request;
    },
    async destroy() {
      close();
      plain.destroy();
      secure.destroy();
    },
  };
}

/** Returns the bytes received on a connection; over TLS, the encrypted ones. */
export function receivedBytes(socket: Socket): number {
  return (wires.get(socket) ?? socket).bytesRead;
}

/**
 * Passes a connection to the callback. An error that the callback throws is ignored: the exchange
 * then ends at its deadline.
 */
function handOver(connection: Promise<Duplex>, callback: OnConnection): void {
  connection
    .then(
      (socket) => callback?.(null, socket),
      (error) => (callback as (error: Error) => void)?.(error),
    )
    .catch(() => {});
}

/**
 * Closes an idle connection that receives bytes, which must not be treated as the response to the
 * next request.
 */
function hangUp(this: Duplex): void {
  this.destroy();
}

function destinationOf(protocol: string, { host, port }: http.ClientRequestArgs): Destination {
  return { protocol, host: (host ?? '').replace(/\.$/, ''), port: Number(port) };
}
