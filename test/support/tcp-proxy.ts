import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type Conditions, type Relay, relay } from './tcp-relay.ts';

/** A relay between a client and a server that a test can freeze, slow down or cut. */
export interface TcpProxy {
  readonly port: number;
  /**
   * Freezes the relay: connections stay open, new ones are accepted, and no byte passes until
   * `thaw`.
   */
  freeze(): void;
  /** Forwards the bytes that arrived while frozen, in order. */
  thaw(): void;
  /** Closes all connections; new ones are accepted. */
  cut(): void;
  /** Closes connections as {@link cut} does, but with a TCP reset (RST) to both sides. */
  reset(): void;
  /**
   * Simulates a router that lost its connection state, until `heal`. Existing connections stay open
   * on both sides. Neither side receives the other's data, FIN or RST. New connections are accepted
   * and reach nobody.
   */
  halfOpen(): void;
  /** Delays all bytes by this number of milliseconds, in each direction. */
  delay(ms: number): void;
  /** Limits the bytes per second in each direction of each connection. */
  drip(bytesPerSecond: number): void;
  /**
   * Restores normal operation: resets half-open connections and releases held or frozen bytes
   * immediately.
   */
  heal(): void;
  /** Calls `listener` with each chunk that the server sends, before it is forwarded. */
  onAnswer(listener: (data: Buffer) => void): void;
  close(): Promise<void>;
}

interface Connection {
  readonly sockets: readonly Socket[];
  readonly relays: readonly Relay[];
}

/** Listens on a free port of loopback and relays to `target`. */
export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const connections = new Set<Connection>();
  const lost = new Set<Connection>();
  const listeners: ((data: Buffer) => void)[] = [];
  const conditions: Conditions = { frozen: false, delayMs: 0, bytesPerSecond: undefined };
  let losing = false;
  // Each side is closed when its own FIN has been forwarded, not when the other side's FIN arrives.
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => {
    if (losing) {
      client.on('error', () => undefined);
      track({ sockets: [client], relays: [] }, lost);
      return;
    }
    const upstream = connect({ ...target, allowHalfOpen: true });
    const there = relay(client, upstream, conditions, () => undefined);
    const back = relay(upstream, client, conditions, (data) => {
      for (const listener of listeners) listener(data);
    });
    track({ sockets: [client, upstream], relays: [there, back] }, connections);
    there.proceed();
  });

  function track(connection: Connection, among: Set<Connection>): void {
    among.add(connection);
    for (const socket of connection.sockets) {
      socket.once('close', () => {
        if (connection.sockets.some(({ destroyed }) => !destroyed)) return;
        connections.delete(connection);
        lost.delete(connection);
      });
    }
  }

  function change(changed: Partial<Conditions>): void {
    Object.assign(conditions, changed);
    for (const { relays } of connections) for (const relayed of relays) relayed.proceed();
  }

  function endAll(end: (socket: Socket) => void): void {
    for (const { sockets } of [...connections, ...lost]) for (const socket of sockets) end(socket);
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    freeze: () => change({ frozen: true }),
    thaw: () => change({ frozen: false }),
    cut: () => endAll((socket) => socket.destroy()),
    reset: () => endAll((socket) => socket.resetAndDestroy()),
    halfOpen() {
      losing = true;
      for (const connection of connections) {
        for (const relayed of connection.relays) relayed.lose();
        lost.add(connection);
      }
      connections.clear();
    },
    delay: (ms) => change({ delayMs: ms }),
    drip: (bytesPerSecond) => change({ bytesPerSecond }),
    heal() {
      losing = false;
      for (const { sockets } of lost) for (const socket of sockets) socket.resetAndDestroy();
      change({ frozen: false, delayMs: 0, bytesPerSecond: undefined });
    },
    onAnswer: (listener) => void listeners.push(listener),
    async close() {
      endAll((socket) => socket.destroy());
      server.close();
      await once(server, 'close');
    },
  };
}
