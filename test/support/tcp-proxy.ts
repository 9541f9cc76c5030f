import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A relay between a client and a server that a test can make silent, or cut. */
export interface TcpProxy {
  readonly port: number;
  /** Connections stay, new ones are taken, and nothing passes in either direction. */
  freeze(): void;
  /** What came meanwhile passes, in order. */
  thaw(): void;
  /** Ends all connections at once; new ones are taken as before. */
  cut(): void;
  /** Calls `listener` with each piece that the server sends, before it passes. */
  onAnswer(listener: (data: Buffer) => void): void;
  close(): Promise<void>;
}

/** Listens on a free port of the loopback and relays to `target`. */
export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const listeners: ((data: Buffer) => void)[] = [];
  let frozen = false;
  const server = createServer((client) => {
    const upstream = connect(target);
    relay(client, upstream, () => undefined);
    relay(upstream, client, (data) => {
      for (const listener of listeners) listener(data);
    });
  });

  function relay(from: Socket, to: Socket, seen: (data: Buffer) => void): void {
    sockets.add(from);
    if (frozen) from.pause();
    from.on('data', (data: Buffer) => {
      seen(data);
      to.write(data);
    });
    from.on('end', () => to.end());
    from.on('error', () => to.destroy());
    from.on('close', () => {
      sockets.delete(from);
      to.destroy();
    });
    // A listener for data makes the socket flow.
    if (frozen) from.pause();
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    freeze() {
      frozen = true;
      for (const socket of sockets) socket.pause();
    },
    thaw() {
      frozen = false;
      for (const socket of sockets) socket.resume();
    },
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    onAnswer: (listener) => void listeners.push(listener),
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
