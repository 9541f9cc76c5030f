import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait.ts';

test('the TCP proxy delays each direction until it heals', async () => {
  const { proxy, client } = await startEcho();
  await client.ask('at once');
  proxy.delay(150);
  const askedAt = performance.now();
  await client.ask('delayed');
  expect(performance.now() - askedAt).toBeGreaterThanOrEqual(290);
  proxy.delay(60_000);
  const asked = client.ask('held');
  await client.ownPieces(3);
  proxy.heal();
  await asked;
});

test('the TCP proxy drips bytes in order without loss', async () => {
  const { proxy, client } = await startEcho();
  proxy.drip(1000);
  const askedAt = performance.now();
  await client.ask('0123456789'.repeat(30));
  expect(performance.now() - askedAt).toBeGreaterThanOrEqual(250);
});

test('the TCP proxy passes frozen bytes after the thaw, and loses half-open ones silently until it heals', async () => {
  const { proxy, client, connectClient, serverSockets } = await startEcho();
  await client.ask('before');
  proxy.freeze();
  const asked = client.ask('frozen');
  await client.ownPieces(2);
  proxy.thaw();
  await asked;

  proxy.halfOpen();
  client.socket.write('lost');
  const late = await connectClient();
  late.socket.write('nobody');
  // Only the server's end of the connection is left, and it is not notified of the client's end.
  const [serverSocket] = serverSockets;
  const third = await connectClient();
  third.socket.destroy();
  const received = client.received();
  serverSocket!.write('nor back');
  proxy.thaw();
  const control = await startEcho();
  await control.client.ask('a round trip elsewhere, so that what could have passed would have');
  expect(client.received()).toBe(received);
  expect(client.socket.destroyed).toBe(false);
  expect(serverSocket!.destroyed).toBe(false);
  expect(serverSockets).toHaveLength(1);

  const errors = Promise.all([client.failure, late.failure]);
  proxy.heal();
  expect(await errors).toEqual(['ECONNRESET', 'ECONNRESET']);
  await waitFor(() => serverSocket!.destroyed, { timeoutMs: 5000, what: 'the reset at the server' });
  await (await connectClient()).ask('after');
});

test('the TCP proxy hides the end of a client from the server of a half-open connection', async () => {
  const { proxy, client, serverSockets } = await startEcho();
  await client.ask('before');
  proxy.halfOpen();
  client.socket.destroy();
  await once(client.socket, 'close');
  const control = await startEcho();
  await control.client.ask('a round trip elsewhere');
  expect(serverSockets[0]!.destroyed || serverSockets[0]!.readableEnded).toBe(false);
  proxy.heal();
  await waitFor(() => serverSockets[0]!.destroyed, { timeoutMs: 5000, what: 'the reset at the server' });
});

test('the TCP proxy resets connections', async () => {
  const { proxy, client, connectClient } = await startEcho();
  await client.ask('before');
  proxy.reset();
  expect(await client.failure).toBe('ECONNRESET');
  await (await connectClient()).ask('after');
});

interface Client {
  readonly socket: Socket;
  /** Sends the text, and resolves when all of it has been echoed. */
  ask(text: string): Promise<void>;
  received(): string;
  /** Resolves when this number of writes have been handed to the system. */
  ownPieces(count: number): Promise<void>;
  /** Resolves with the code of the error that closed the connection. */
  readonly failure: Promise<string | undefined>;
}

async function startEcho(): Promise<{
  proxy: TcpProxy;
  client: Client;
  connectClient(): Promise<Client>;
  serverSockets: Socket[];
}> {
  const serverSockets: Socket[] = [];
  const server = createServer((socket) => {
    serverSockets.push(socket);
    socket.on('error', () => undefined);
    socket.on('data', (data) => socket.write(data));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxy = await startTcpProxy({ host: '127.0.0.1', port: (server.address() as AddressInfo).port });
  onTestFinished(async () => {
    await proxy.close();
    server.close();
  });
  const connectClient = () => openClient(proxy.port);
  return { proxy, client: await connectClient(), connectClient, serverSockets };
}

async function openClient(port: number): Promise<Client> {
  const socket = connect(port, '127.0.0.1');
  let received = '';
  let written = 0;
  const failure = new Promise<string | undefined>((resolve) => {
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  });
  socket.on('data', (data) => {
    received += data.toString();
  });
  await once(socket, 'connect');
  return {
    socket,
    received: () => received,
    failure,
    async ask(text) {
      const before = received.length;
      socket.write(text, () => written++);
      await waitFor(() => received.slice(before) === text, { timeoutMs: 5000, what: `the echo of ${text}` });
    },
    ownPieces: async (count) => {
      await waitFor(() => written >= count, { timeoutMs: 5000, what: `${count} writes` });
    },
  };
}
