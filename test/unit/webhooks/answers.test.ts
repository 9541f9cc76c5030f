import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket, type TlsOptions } from 'node:tls';
import { afterEach, expect, test, vi } from 'vitest';
import { parseAllowRules } from '../../../shared/webhooks/addresses.ts';
import { createAgent } from '../../../shared/webhooks/connect.ts';
import type { Exchange } from '../../../shared/webhooks/exchange.ts';
import { post } from '../../../shared/webhooks/post.ts';
import { createSend } from '../../../shared/webhooks/send.ts';
import { TEST_CERTIFICATE, TEST_CERTIFICATE_KEY } from '../../support/tls.ts';
import { waitFor } from '../../support/wait.ts';

type Answer = (socket: Socket) => void;

/**
 * Far above the capacity of two socket buffers. An exchange without a limit reads hundreds of MiB.
 */
const WRITTEN_MAX = 32 * 1024 * 1024;
const DEADLINE_MS = 5000;
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
let cleanUps: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  await Promise.all(cleanUps.map((cleanUp) => cleanUp()));
  cleanUps = [];
});

/** Starts a receiver that answers each request with the test's bytes. */
async function startRawReceiver(answer: Answer, secure = false, tls: TlsOptions = {}) {
  const sockets = new Set<Socket>();
  const onSocket = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', (data) => {
      if (data.includes('POST /')) answer(socket);
    });
  };
  const server: Server = secure
    ? createTlsServer({ cert: TEST_CERTIFICATE, key: TEST_CERTIFICATE_KEY, ...tls }, onSocket)
    : createServer(onSocket);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanUps.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: secure ? `https://receiver.test:${port}/` : `http://127.0.0.1:${port}/`,
    connections: () => sockets.size,
    written: () => [...sockets].reduce((sum, socket) => sum + socket.bytesWritten, 0),
  };
}

/** Returns a function that sends webhooks as the dispatcher does. */
function createSender(deadlineMs = DEADLINE_MS): (url: string, bodyBytes?: number) => Promise<Exchange> {
  const agent = createAgent({
    allow: parseAllowRules('127.0.0.0/8'),
    resolve: async () => ['127.0.0.1'],
    ca: TEST_CERTIFICATE,
  });
  cleanUps.push(() => agent.destroy());
  const send = createSend({ agent, clock: { nowMs: Date.now }, deadlineMs });
  return async (url, bodyBytes = 2) =>
    await send({ url, messageId: 'm', body: Buffer.alloc(bodyBytes, ' '), secrets: [Buffer.alloc(32)] });
}

/**
 * Returns an answer that writes `start`, then `more` repeatedly without an end, as fast as it is
 * read.
 */
const endless =
  (start: string, more: string): Answer =>
  (socket) => {
    const block = more.repeat(Math.ceil(65_536 / more.length));
    const write = () => {
      while (!socket.destroyed && socket.write(block));
    };
    socket.on('drain', write);
    socket.write(start);
    write();
  };

const TOO_LONG = { kind: 'failed', status: undefined, error: 'the answer is longer than 256 KiB' };
const OVERFLOW = { kind: 'failed', status: undefined, error: 'could not be sent: HPE_HEADER_OVERFLOW' };
const DELIVERED = { kind: 'delivered', status: 200 };

test.each([
  ['103 Early Hints', endless('', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'), TOO_LONG],
  ['100 Continue', endless('', 'HTTP/1.1 100 Continue\r\n\r\n'), TOO_LONG],
  ['headers', endless('HTTP/1.1 200 OK\r\n', 'X-Filler: x\r\n'), OVERFLOW],
  ['chunk extensions', endless(CHUNKED, `1;ext=${'x'.repeat(8000)}\r\nx\r\n`), DELIVERED],
  ['one chunk extension', endless(`${CHUNKED}1;ext=`, 'x'), DELIVERED],
  ['trailers', endless(`${CHUNKED}0\r\n`, 'X-Filler: x\r\n'), DELIVERED],
  ['body', endless('HTTP/1.1 200 OK\r\n\r\n', 'x'), DELIVERED],
] as const)('an answer with endless %s is read up to the limit', async (_, answer, outcome) => {
  const receiver = await startRawReceiver(answer);
  const exchange = await createSender()(receiver.url);
  expect(exchange.outcome).toMatchObject(outcome);
  expect(receiver.written()).toBeLessThan(WRITTEN_MAX);
});

test('a host name with a trailing dot is sent without it in SNI, and matches the certificate', async () => {
  const names: unknown[] = [];
  const answer: Answer = (socket) => {
    names.push((socket as TLSSocket).servername);
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
  };
  const { url } = await startRawReceiver(answer, true);
  const exchange = await createSender()(url.replace('receiver.test', 'receiver.test.'));
  expect(exchange.outcome).toMatchObject(DELIVERED);
  expect(names).toEqual(['receiver.test']);
});

test('an answer with endless 1xx over TLS is read up to the limit', async () => {
  const receiver = await startRawReceiver(endless('', 'HTTP/1.1 103 Early Hints\r\n\r\n'), true);
  const exchange = await createSender()(receiver.url);
  expect(exchange.outcome).toMatchObject(TOO_LONG);
  expect(receiver.written()).toBeLessThan(WRITTEN_MAX);
});

test('the limit of an answer applies to each exchange, not to its connection', async () => {
  const body = 'x'.repeat(60 * 1024);
  const receiver = await startRawReceiver((socket) =>
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`),
  );
  const send = createSender();
  for (let sent = 0; sent < 6; sent += 1) expect((await send(receiver.url)).outcome).toMatchObject(DELIVERED);
  expect(receiver.connections()).toBe(1);
});

test('unsolicited interim answers are skipped', async () => {
  const interim = 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n';
  const receiver = await startRawReceiver((socket) =>
    socket.write(`${interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`),
  );
  const { outcome } = await createSender()(receiver.url);
  expect(outcome).toEqual({ ...DELIVERED, answer: Buffer.from('ok') });
});

test('101 Switching Protocols is a failure', async () => {
  const receiver = await startRawReceiver((socket) =>
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx'),
  );
  const { outcome } = await createSender()(receiver.url);
  expect(outcome).toMatchObject({ kind: 'failed', status: 101, error: 'answered 101' });
});

test('101 Switching Protocols closes the connection', async () => {
  const answered: Socket[] = [];
  const receiver = await startRawReceiver((socket) => {
    answered.push(socket);
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n');
  });
  await createSender()(receiver.url);
  await waitFor(() => answered[0]!.destroyed, {
    timeoutMs: 3000,
    what: 'the sender to close its connection',
  });
});

test('a receiver cannot renegotiate a TLS 1.2 connection', async () => {
  let renegotiated = false;
  const answer: Answer = (socket) => {
    (socket as TLSSocket).renegotiate({ rejectUnauthorized: false }, (error) => {
      renegotiated = error === null;
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    });
  };
  const receiver = await startRawReceiver(answer, true, { maxVersion: 'TLSv1.2' });
  // The exchange ends at its deadline, because the receiver waits for the renegotiation.
  await createSender(1000)(receiver.url);
  expect(renegotiated).toBe(false);
});

test('a 2xx counts as delivered if its connection ends within the body', async () => {
  const receiver = await startRawReceiver((socket) =>
    socket.end('HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\nbegun'),
  );
  const { outcome } = await createSender()(receiver.url);
  expect(outcome).toEqual({ kind: 'delivered', status: 202, answer: Buffer.from('begun') });
});

/** Returns an answer that writes a head, then 1 byte of its body every 20 ms, without an end. */
const trickle =
  (head: string): Answer =>
  (socket) => {
    socket.write(head);
    const timer = setInterval(() => socket.write('x'), 20);
    socket.once('close', () => clearInterval(timer));
  };

test.each([
  ['200 OK', DELIVERED],
  ['410 Gone', { kind: 'failed', status: 410, gone: true }],
  ['500 Internal Server Error', { kind: 'failed', status: 500, error: 'answered 500' }],
] as const)(
  'an answer %s whose body never ends counts by its status before the deadline',
  async (status, outcome) => {
    const head = `HTTP/1.1 ${status}\r\n`;
    const answers: Answer[] = [
      trickle(`${head}Content-Length: 100000\r\n\r\n`),
      trickle(`${head}Transfer-Encoding: chunked\r\n\r\n1;`),
      (socket) => socket.write(`${head}Content-Length: 2\r\n\r\n`),
    ];
    const answered: Socket[] = [];
    const receiver = await startRawReceiver((socket) => {
      answered.push(socket);
      answers[answered.length - 1]!(socket);
    });
    // Longer than any test may take, so that an exchange that waits for the deadline fails the
    // test.
    const send = createSender(120_000);
    const exchanges = await Promise.all(answers.map(() => send(receiver.url)));
    for (const exchange of exchanges) expect(exchange.outcome).toMatchObject(outcome);
    await waitFor(() => answered.every((socket) => socket.destroyed), {
      timeoutMs: 3000,
      what: 'the sender to close its connections',
    });
  },
);

test('an answer whose body exceeds the deadline counts by its status', async () => {
  // Shorter than the time for which a body is read, so that the deadline ends the exchange.
  const deadlineMs = 500;
  // Only the timers of the exchange: the receiver's intervals and the sockets are real.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  cleanUps.push(async () => {
    vi.useRealTimers();
  });
  // The client of the same process has read the head before the 20th byte is written.
  const receiver = await startRawReceiver((socket) => {
    trickle('HTTP/1.1 200 OK\r\n\r\n')(socket);
    const timer = setInterval(() => {
      if (socket.bytesWritten < 40) return;
      clearInterval(timer);
      vi.advanceTimersByTime(deadlineMs);
    }, 20);
    socket.once('close', () => clearInterval(timer));
  });
  const agent = createAgent({
    allow: parseAllowRules('127.0.0.0/8'),
    resolve: async () => ['127.0.0.1'],
  });
  cleanUps.push(() => agent.destroy());
  const answer = await post({
    agent,
    url: receiver.url,
    headers: {},
    body: Buffer.from('{}'),
    deadlineMs,
  });
  expect(answer.status).toBe(200);
});

test('a 2xx counts as delivered when its body is malformed', async () => {
  const receiver = await startRawReceiver((socket) => socket.write(`${CHUNKED}2\r\nok\r\nno size\r\n`));
  expect((await createSender()(receiver.url)).outcome).toMatchObject(DELIVERED);
});

test('410 and Retry-After count even if their body is truncated', async () => {
  const head = ['HTTP/1.1 410 Gone', 'HTTP/1.1 429 Too Many Requests\r\nRetry-After: 60'];
  const receiver = await startRawReceiver((socket) =>
    socket.end(`${head.shift()}\r\nContent-Length: 100\r\n\r\nbegun`),
  );
  const send = createSender();
  expect((await send(receiver.url)).outcome).toMatchObject({ status: 410, gone: true });
  const { outcome, finishedAtMs } = await send(receiver.url);
  expect(outcome).toMatchObject({ status: 429, gone: false });
  expect(outcome.kind === 'failed' && outcome.pausedUntilMs).toBeGreaterThan(finishedAtMs);
});

test('bytes after an answer are not treated as the next answer', async () => {
  const receiver = await startRawReceiver((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    answered.push(socket);
  });
  const answered: Socket[] = [];
  const send = createSender();
  for (let sent = 0; sent < 3; sent += 1) {
    expect((await send(receiver.url)).outcome).toMatchObject(DELIVERED);
    answered[sent]!.write('HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n');
    await waitFor(() => answered[sent]!.destroyed, { timeoutMs: 3000, what: 'the sender to hang up' });
  }
  expect(receiver.connections()).toBe(3);
});

test('a connection whose request was answered before it was read is closed', async () => {
  const receiver = await startRawReceiver((socket) => {
    socket.pause();
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
  });
  const send = createSender();
  for (let sent = 0; sent < 2; sent += 1) {
    expect((await send(receiver.url, 32 * 1024 * 1024)).outcome).toMatchObject(DELIVERED);
  }
  expect(receiver.connections()).toBe(2);
});
