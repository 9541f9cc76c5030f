import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type Conditions, type Relay, relay } from './tcp-relay.ts';

/** A relay between a client and a server that a test can make silent, slow, or cut. */
export interface TcpProxy {
  readonly port: number;
  /** Connections stay, new ones are taken, and nothing passes in either direction until it thaws. */
  freeze(): void;
  /** Forwards the bytes that arrived meanwhile, in order. */
  thaw(): void;
  /** Closes all connections; new ones are accepted. */
  cut(): void;
  /** As {@link cut}, with a TCP reset (RST) to both sides. */
  reset(): void;
  /**
   * As where a router forgot its connections: those there are stay open on both sides, but they are lost, and neither side
   * hears of what the other sends, of its end or of its death. New ones are taken and reach nobody. Until it heals.
   */
  halfOpen(): void;
  /** Delays all bytes by this number of milliseconds, in each direction. */
  delay(ms: number): void;
  /** Limits the bytes per second in each direction of each connection. */
  drip(bytesPerSecond: number): void;
  /** Back to normal: resets what is half-open; held or frozen bytes pass immediately. */
  heal(): void;
  /** Calls `listener` with each piece that the server sends, before it passes. */
  onAnswer(listener: (data: Buffer) => void): void;
  close(): Promise<void>;
}

interface Connection {
  readonly sockets: readonly Socket[];
  readonly relays: readonly Relay[];
}

/** Listens on a free port of the loopback and relays to `target`. */
export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const connections = new Set<Connection>();
  const lost = new Set<Connection>();
  const listeners: ((data: Buffer) => void)[] = [];
  const conditions: Conditions = { frozen: false, delayMs: 0, bytesPerSecond: undefined };
  let losing = false;
  // Each side ends when its own end has been passed on, not when the other's comes.
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
