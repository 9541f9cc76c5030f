import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { gunzipBounded } from '../../../shared/http/json-body/content.ts';
import type { RefusedConnection } from '../../../shared/http/listener/connections.ts';
import { type HttpServer, listen } from '../../../shared/http/listener/serve.ts';
import { createGatewayApp, type GatewayAppOptions, SECRET } from '../../support/gateway-app.ts';
import { openWire } from '../../support/http-wire.ts';
import { openRaw, type RawConnection } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

const PATH = '/metadata-ingestion/v1/single-convo-metadata';
const MIB = 1024 * 1024;
const HEADERS = `Host: x\r\nservice-api-id: key-1\r\nservice-api-secret: ${SECRET}\r\nContent-Type: application/json\r\n`;
const BODY = '{"externalConversationId":"c"}';

const servers: HttpServer[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.destroy();
});

interface StartOptions {
  readonly requestTimeoutMs?: number;
  readonly stallTimeoutMs?: number;
  readonly closeTimeoutMs?: number;
  readonly connectionsMax?: number;
  readonly connectionsPerAddressMax?: number;
  readonly trustedHops?: number;
  readonly keepAliveMs?: number;
  readonly keylessIdleMs?: number;
  readonly onRefused?: (refused: RefusedConnection) => void;
}

async function start(options: StartOptions = {}, app: GatewayAppOptions = {}) {
  const gateway = createGatewayApp(app);
  let ids = 0;
  const server = await listen({
    fetch: gateway.app.fetch,
    host: '127.0.0.1',
    port: 0,
    portSetting: 'PORT',
    nextId: () => `id-${++ids}`,
    ...options,
  });
  servers.push(server);
  return { ...gateway, server };
}

describe('a body over the size limit', () => {
  it('of 100 MB with Content-Length gets 413-01 while it is sent and leaves the connection open', async () => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    await connection.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: ${100 * MIB}\r\n\r\n`);
    for (let sent = 0; sent < 100; sent++) await connection.write(Buffer.alloc(MIB, 'x'));
    await connection.received(/HTTP\/1\.1 413 .*"code":"413-01"/s);
    await connection.write(
      `POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: ${BODY.length}\r\n\r\n${BODY}`,
    );
    await connection.received(/HTTP\/1\.1 200 .*"error":""/s);
    expect(connection.errors()).toEqual([]);
  });

  it('of 100 MB in chunks gets 413-01 while it is sent, and the connection closes without a reset', async () => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    // Reads only after everything is written.
    connection.socket.pause();
    await connection.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Transfer-Encoding: chunked\r\n\r\n`);
    for (let sent = 0; sent < 100; sent++) {
      await connection.write(`${MIB.toString(16)}\r\n`);
      await connection.write(Buffer.alloc(MIB, 'x'));
      await connection.write('\r\n');
    }
    connection.socket.resume();
    await connection.received(/HTTP\/1\.1 413 .*"code":"413-01"/s);
    await waitFor(connection.closed, { timeoutMs: 5000, what: 'the end of the connection' });
    expect(connection.errors()).toEqual([]);
  });

  it('gets 413 with a node:http client that reads only after it has written everything', async () => {
    const { server } = await start();
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const sending = request(
        { port: server.port, path: PATH, method: 'POST', headers: headers() },
        (response) => {
          response.resume();
          resolve(response.statusCode);
        },
      );
      sending.on('error', reject);
      sending.end(Buffer.alloc(40 * MIB, 'x'));
    });
    expect(status).toBe(413);
  });

  it('without an API key gets 401-01 unread and without a reset', async () => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    await connection.write(`POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: ${20 * MIB}\r\n\r\n`);
    await connection.received(/HTTP\/1\.1 401 /);
    await connection.write(Buffer.alloc(20 * MIB, 'x'));
    await connection.write('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    await connection.received(/HTTP\/1\.1 200 .*"status":"ok"/s);
    expect(connection.errors()).toEqual([]);
  });

  it('is not unpacked beyond the limit', async () => {
    const bomb = gzipSync(Buffer.alloc(64 * MIB));
    const before = process.memoryUsage().arrayBuffers;
    expect(await gunzipBounded(bomb, { bytesMax: MIB, take: () => true })).toEqual({
      ok: false,
      reason: 'too-large',
    });
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * MIB);
  });
});

describe('a body that arrives after its answer', () => {
  const KEYLESS = 'Host: x\r\nContent-Type: application/json\r\n';
  const CHUNKED = 'Transfer-Encoding: chunked\r\n';
  const post = (headers: string) => `POST ${PATH} HTTP/1.1\r\n${headers}\r\n`;
  const health = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n';
  const MOST = 5 * MIB;

  it.each([
    ['chunks of one byte', '1\r\nx\r\n'.repeat(10_000)],
    ['long chunks', `10000\r\n${'x'.repeat(0x10000)}\r\n`],
    ['chunk extensions', `1;${'e'.repeat(1000)}\r\nx\r\n`.repeat(60)],
  ])('without an end (%s) gets 401-01 once, and its connection closes', async (_what, piece) => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    await connection.write(post(KEYLESS + CHUNKED));
    await connection.received(/HTTP\/1\.1 401 .*"401-01"/s);
    let sent = 0;
    while (!connection.closed() && sent < 64 * MIB) {
      await connection.write(piece).catch(() => undefined);
      await new Promise(setImmediate);
      sent += piece.length;
    }
    expect(sent).toBeLessThan(32 * MIB);
    expect(connection.text().match(/HTTP\/1\.1 [0-9]+/g)).toEqual(['HTTP/1.1 401']);
  });

  it('leaves the connection open if it is small', async () => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    const answers = () =>
      connection
        .text()
        .match(/HTTP\/1\.1 [0-9]+/g)
        ?.map((line) => line.slice(-3)) ?? [];
    const bodies: [headers: string, body: string][] = [
      [`Content-Length: ${MIB}\r\n`, 'x'.repeat(MIB)],
      [CHUNKED, `${'1\r\nx\r\n'.repeat(5000)}0\r\n\r\n`],
    ];
    for (let round = 1; round <= 5; round++) {
      for (const [headers, body] of bodies) {
        const before = answers().length;
        await connection.write(post(KEYLESS + headers));
        await waitFor(() => answers().length > before, { timeoutMs: 5000, what: 'the answer' });
        await connection.write(body);
      }
    }
    await connection.write(health);
    await connection.received(/"status":"ok"/);
    expect(answers()).toEqual([...Array(10).fill('401'), '200']);
    expect(connection.errors()).toEqual([]);
  });

  it.each([
    ['its length', `Content-Length: ${MOST}\r\n`, ['x'.repeat(MOST)]],
    [
      'its length and Connection: close',
      `Connection: close\r\nContent-Length: ${MOST}\r\n`,
      ['x'.repeat(MOST)],
    ],
    ['chunks of 64 KiB', CHUNKED, Array<string>(MOST / 65_536).fill(`10000\r\n${'x'.repeat(65_536)}\r\n`)],
    ['chunks of 100 bytes', CHUNKED, Array<string>(52).fill(`64\r\n${'x'.repeat(100)}\r\n`.repeat(1000))],
  ])('of 5 MiB (%s) does not keep the caller from reading the answer', async (_what, headers, pieces) => {
    const { server } = await start();
    for (const [caller, status] of [
      [KEYLESS, 401],
      [HEADERS, 413],
    ] as const) {
      const connection = await openRaw(server.port);
      // Reads only after everything is written.
      connection.socket.pause();
      await connection.write(post(caller + headers));
      for (const piece of pieces) await connection.write(piece);
      connection.socket.resume();
      await connection.received(new RegExp(`^HTTP/1\\.1 ${status} .*"${status}-01".*\\}$`, 's'));
      expect(connection.errors()).toEqual([]);
    }
  });

  it('streamed by fetch does not keep it from reading the answer', async () => {
    const { server } = await start();
    for (const [more, status] of [
      [{}, 401],
      [{ 'service-api-id': 'key-1', 'service-api-secret': SECRET }, 413],
    ] as const) {
      let left = 320;
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          if (left-- > 0) controller.enqueue(new Uint8Array(16 * 1024).fill(32));
          else controller.close();
        },
      });
      const response = await fetch(`http://127.0.0.1:${server.port}${PATH}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...more },
        body,
        duplex: 'half',
      } as RequestInit);
      expect([response.status, await response.json()]).toMatchObject([
        status,
        { error: { code: `${status}-01` } },
      ]);
    }
  });

  it('closes the connection only after the earlier answers', async () => {
    const { server, publisher } = await start();
    publisher.script = undefined;
    const connection = await openRaw(server.port);
    await connection.write(`${post(`${HEADERS}Content-Length: ${BODY.length}\r\n`)}${BODY}`);
    await waitFor(() => publisher.calls.length === 1, { timeoutMs: 5000, what: 'the publish' });
    await connection.write(post(HEADERS + CHUNKED) + `10000\r\n${'x'.repeat(0x10000)}\r\n`.repeat(300));
    publisher.calls[0]!.answer('ok');
    await connection.received(/HTTP\/1\.1 200 .*HTTP\/1\.1 413 .*"413-01"/s);
    await waitFor(connection.closed, { timeoutMs: 5000, what: 'the end of the connection' });
    expect(connection.errors()).toEqual([]);
  });
});

describe('a body of a request over the request rate', () => {
  it('of 20 MB gets 429-01 unread and leaves the connection open', async () => {
    const clock = { ms: 0, nowMs: () => clock.ms };
    const limits = { tenantRate: 1, keyRate: undefined, byteRate: 'none' as const, dailyQuota: undefined };
    const { server, bodyMemory } = await start({}, { clock, keys: { 'key-1': { limits } } });
    const connection = await openRaw(server.port);
    const whole = `POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: ${BODY.length}\r\n\r\n${BODY}`;
    await connection.write(whole + whole);
    await connection.received(/HTTP\/1\.1 200 .*HTTP\/1\.1 200 /s);
    await connection.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: ${20 * MIB}\r\n\r\n`);
    await connection.received(/HTTP\/1\.1 429 .*retry-after: 1\r\n.*"code":"429-01"/is);
    await connection.write(Buffer.alloc(20 * MIB, 'x'));
    expect(bodyMemory.heldBytes()).toBe(0);
    clock.ms += 1000;
    await connection.write(whole);
    await connection.received(/429-01.*HTTP\/1\.1 200 /s);
    expect(connection.errors()).toEqual([]);
  });
});

describe('the byte rate', () => {
  const MIB_PER_SECOND = {
    tenantRate: 'none',
    keyRate: undefined,
    byteRate: MIB,
    dailyQuota: undefined,
  } as const;

  it('gets back the unread bytes of a body whose caller closes the connection', async () => {
    const clock = { nowMs: () => 0 };
    const { server, log } = await start({}, { clock, keys: { 'key-1': { limits: MIB_PER_SECOND } } });
    const post = (length: number) => `POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: ${length}\r\n\r\n`;
    const gone = await openRaw(server.port);
    await gone.write(`${post(MIB)}{`);
    const other = await openRaw(server.port);
    const leftNow = async () => {
      const before = other.text().length;
      await other.write(post(BODY.length) + BODY);
      const [, left] = await waitFor(() => /"bytes";r=(\d+)/.exec(other.text().slice(before)), {
        timeoutMs: 5000,
        what: 'an answer',
      });
      return Number(left);
    };
    await waitFor(async () => (await leftNow()) < 3 * MIB + 1, { timeoutMs: 5000, what: 'the reservation' });
    gone.socket.destroy();
    await waitFor(() => log().includes('"status":400'), { timeoutMs: 5000, what: 'the end of the request' });
    expect(await leftNow()).toBeGreaterThan(4 * MIB - 100 * BODY.length);
  });
});

describe('the memory for bodies', () => {
  const post = (length: number, more = '') =>
    `POST ${PATH} HTTP/1.1\r\n${HEADERS}${more}Content-Length: ${length}\r\n\r\n`;

  it('refuses bodies with 503-01 while it is full, without keeping them', async () => {
    const { server, bodyMemory } = await start({}, { bodyBytesMax: 2000 });
    const half = await openRaw(server.port);
    await half.write(`${post(1000)}${'x'.repeat(900)}`);
    await waitFor(() => bodyMemory.heldBytes() === 900, { timeoutMs: 5000, what: 'the partial body' });
    const other = await openRaw(server.port);
    await other.write(post(MIB));
    await other.write(Buffer.alloc(MIB, 'x'));
    await other.received(/HTTP\/1\.1 503 .*retry-after: 1\r\n.*"code":"503-01".*"path":"body"/is);
    expect(bodyMemory.heldBytes()).toBe(900);
    half.socket.destroy();
    await waitFor(() => bodyMemory.heldBytes() === 0, { timeoutMs: 5000, what: 'the release' });
    await other.write(post(BODY.length) + BODY);
    await other.received(/503-01.*HTTP\/1\.1 200 .*"error":""/s);
    expect(other.errors()).toEqual([]);
    expect(bodyMemory.heldBytes()).toBe(0);
  });

  it('refuses a body immediately, so that two partial bodies never deadlock', async () => {
    const { server, bodyMemory } = await start({}, { bodyBytesMax: 2000 });
    const body = BODY.padEnd(800);
    const [one, two] = [await openRaw(server.port), await openRaw(server.port)];
    for (const half of [one, two]) await half.write(post(800) + body.slice(0, 400));
    await waitFor(() => bodyMemory.heldBytes() === 800, { timeoutMs: 5000, what: 'both partial bodies' });
    await two.write(body.slice(400));
    await two.received(/^HTTP\/1\.1 503 /);
    expect(bodyMemory.heldBytes()).toBe(400);
    await one.write(body.slice(400));
    await one.received(/^HTTP\/1\.1 200 /);
  });

  it('counts unpacked bytes in addition to sent ones until the request ends', async () => {
    const { server, bodyMemory, publisher } = await start({}, { bodyBytesMax: 128 * 1024 });
    const packed = (bytes: number) => gzipSync(BODY.padEnd(bytes));
    const send = async (bytes: Buffer) => {
      const connection = await openRaw(server.port);
      await connection.write(post(bytes.length, 'Content-Encoding: gzip\r\n'));
      await connection.write(bytes);
      return connection;
    };
    publisher.script = undefined;
    const held = await send(packed(40_000));
    await waitFor(() => publisher.calls.length === 1, { timeoutMs: 5000, what: 'the publish' });
    expect(bodyMemory.heldBytes()).toBe(40_000 + packed(40_000).length);
    await (await send(packed(40_000))).received(/HTTP\/1\.1 503 /);
    publisher.calls[0]!.answer('ok');
    await held.received(/HTTP\/1\.1 200 /);
    expect(bodyMemory.heldBytes()).toBe(0);
    publisher.script = (call) => call.answer('ok');
    await (await send(packed(60_000))).received(/HTTP\/1\.1 200 /);
  });
});

describe('connections', () => {
  const health = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n';
  const state = `GET /automation-agent/v1/state?externalId=c HTTP/1.1\r\n${HEADERS}\r\n`;
  const open = async (port: number, text: string, pattern = /HTTP\/1\.1 /) => {
    const connection = await openRaw(port);
    await connection.write(text);
    await connection.received(pattern);
    return connection;
  };
  const closes = (connection: RawConnection, what: string) =>
    waitFor(connection.closed, { timeoutMs: 10_000, what });

  it('beyond the bound serve health checks only, until others close', async () => {
    const refused: RefusedConnection[] = [];
    const { server } = await start({
      connectionsMax: 2,
      connectionsPerAddressMax: 2,
      onRefused: (one) => refused.push(one),
    });
    const one = await open(server.port, state);
    const two = await open(server.port, health);
    for (let i = 0; i < 3; i++) {
      const other = await openRaw(server.port);
      await other.write(state);
      await closes(other, 'the end of a connection over the limit');
      expect(other.text()).toBe('');
    }
    expect(refused).toEqual(Array(3).fill({ reason: 'all', address: '127.0.0.1' }));
    const check = await open(server.port, health, /^HTTP\/1\.1 200 .*connection: close.*"ok"/is);
    await closes(check, 'the end of the connection after a health check');
    await two.write(health);
    await two.received(/ok.*HTTP\/1\.1 200 /s);
    one.socket.destroy();
    await waitFor(
      async () => {
        const next = await openRaw(server.port);
        await next.write(state);
        return await next.received(/HTTP\/1\.1 404 /, 200);
      },
      { timeoutMs: 5000, what: 'a new connection to be accepted' },
    );
  });

  it('beyond the bound that send nothing leave room for health checks', async () => {
    const { server } = await start({ connectionsMax: 1, connectionsPerAddressMax: 1 });
    await open(server.port, health);
    const silent = await Promise.all(Array.from({ length: 30 }, () => openRaw(server.port)));
    await waitFor(() => silent.every((connection) => connection.closed()), {
      timeoutMs: 10_000,
      what: 'the end of silent connections',
    });
    await open(server.port, health, /^HTTP\/1\.1 200 /);
  });

  it('of one address are bounded to a tenth of all', async () => {
    const refused: RefusedConnection[] = [];
    const { server } = await start({ connectionsMax: 30, onRefused: (one) => refused.push(one) });
    const kept = [];
    for (let i = 0; i < 3; i++) kept.push(await open(server.port, health));
    const fourth = await openRaw(server.port);
    await closes(fourth, 'the end of the fourth connection');
    expect([fourth.text(), refused]).toEqual(['', [{ reason: 'address', address: '127.0.0.1' }]]);
    const other = connect({ port: server.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
    other.write(health);
    expect((await once(other, 'data')).toString()).toContain('HTTP/1.1 200 ');
    other.destroy();
    expect(kept.some((connection) => connection.closed())).toBe(false);
  });

  it('of a trusted proxy are not bounded, but open requests of one forwarded address are', async () => {
    const { server, publisher } = await start({ connectionsMax: 20, trustedHops: 2 });
    publisher.script = undefined;
    // The outermost proxy appended 10.0.0.1 to the caller's header; the inner proxy appended the
    // outer proxy's address.
    const post = (forwarded: string) =>
      `POST ${PATH} HTTP/1.1\r\n${HEADERS}X-Forwarded-For: ${forwarded}\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
    const held = [];
    for (const address of ['10.0.0.1:5555', '[::ffff:10.0.0.1]:80']) {
      const connection = await openRaw(server.port);
      await connection.write(post(`1.2.3.4, ${address}, 10.9.9.9`));
      held.push(connection);
    }
    await waitFor(() => publisher.calls.length > 0, { timeoutMs: 5000, what: 'a publish' });
    const refused = await open(server.port, post('5.6.7.8, 10.0.0.1, 10.9.9.9'), /^HTTP\/1\.1 503 .*503-01/s);
    expect(refused.text()).toMatch(/retry-after: 1\r\n.*cache-control|cache-control.*retry-after: 1\r\n/is);
    const other = await openRaw(server.port);
    await other.write(post('10.0.0.1, 10.0.0.2:99, 10.9.9.9'));
    publisher.script = (call) => call.answer('ok');
    for (const call of publisher.calls) call.answer('ok');
    for (const connection of [...held, other]) await connection.received(/^HTTP\/1\.1 200 /);
    await refused.write(post('10.0.0.1, 10.9.9.9'));
    await refused.received(/503-01.*HTTP\/1\.1 200 /s);
  });

  it('without a valid key are closed after a while even if they send requests', async () => {
    const { server } = await start({ keylessIdleMs: 500 });
    const connection = await openRaw(server.port);
    const busy = async () => {
      if (!connection.closed()) await connection.write(health).catch(() => undefined);
      return connection.closed();
    };
    await waitFor(busy, { timeoutMs: 20_000, what: 'the end of the connection', everyMs: 50 });
    expect(connection.text()).toMatch(/^HTTP\/1\.1 200 /);
    expect(connection.text().match(/connection: close/gi)).toHaveLength(1);
  });

  it('without a valid key have a short keep-alive timeout, which answers report', async () => {
    const { server } = await start({ keylessIdleMs: 1000 });
    const silent = await openRaw(server.port);
    const keyless = await open(server.port, health);
    const wrong = await open(server.port, state.replace(SECRET, 'wrong'), /^HTTP\/1\.1 401 /);
    const keyed = await open(server.port, state, /^HTTP\/1\.1 404 /);
    expect(keyless.text()).toMatch(/keep-alive: timeout=1\r\n/i);
    expect(wrong.text()).toMatch(/keep-alive: timeout=1\r\n/i);
    expect(keyed.text()).toMatch(/keep-alive: timeout=620\r\n/i);
    await waitFor(() => [silent, keyless, wrong].every((connection) => connection.closed()), {
      timeoutMs: 10_000,
      what: 'the end of connections without a key',
    });
    await keyed.write(health);
    await keyed.received(/404-01.*HTTP\/1\.1 200 /s);
  });

  it('of a trusted proxy stay open without a key', async () => {
    const { server } = await start({ keylessIdleMs: 100, trustedHops: 1 });
    const pooled = await open(server.port, health);
    const keyless = await openRaw((await start({ keylessIdleMs: 500 })).server.port);
    await closes(keyless, 'the end of a connection that is not from a proxy');
    await pooled.write(health);
    await pooled.received(/ok.*HTTP\/1\.1 200 /s);
    expect(pooled.text()).toMatch(/keep-alive: timeout=620\r\n/i);
  });

  it('with slow headers get an answer and close, and those that send nothing close', async () => {
    const { server } = await start({ requestTimeoutMs: 400 });
    const silent = await openRaw(server.port);
    const dripping = await openRaw(server.port);
    await dripping.write('GET /health/live HTTP/1.1\r\n');
    const drip = setInterval(() => dripping.socket.write('x-a: 1\r\n'), 20);
    try {
      await dripping.received(/^HTTP\/1\.1 400 .*did not arrive in time/s);
      await waitFor(() => dripping.closed() && silent.closed(), {
        timeoutMs: 5000,
        what: 'the end of both connections',
      });
    } finally {
      clearInterval(drip);
    }
  });

  it('with a slow body get an answer and close', async () => {
    const { server, bodyMemory } = await start({ requestTimeoutMs: 400 });
    const dripping = await openRaw(server.port);
    await dripping.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: 100000\r\n\r\n`);
    const drip = setInterval(() => dripping.socket.write('x'), 20);
    try {
      await dripping.received(/^HTTP\/1\.1 400 .*"code":"400-01"/s);
      await waitFor(dripping.closed, { timeoutMs: 5000, what: 'the end of the connection' });
    } finally {
      clearInterval(drip);
    }
    await waitFor(() => bodyMemory.heldBytes() === 0, { timeoutMs: 5000, what: 'the release' });
  });

  it('whose caller does not read its answers are closed', async () => {
    const { server } = await start({ stallTimeoutMs: 300, connectionsMax: 1, connectionsPerAddressMax: 1 });
    const deaf = await openRaw(server.port);
    deaf.socket.pause();
    // More data than the buffers of both ends hold.
    await deaf.write('GET /docs/scalar.js HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5));
    // This connection uses the only slot while it is open.
    const served = () => fetch(`http://127.0.0.1:${server.port}/openapi.json`).then((answer) => answer.ok);
    await expect(served()).rejects.toThrow();
    await waitFor(() => served().catch(() => false), { timeoutMs: 5000, what: 'the closed connection' });
    deaf.socket.destroy();
  });

  it('without a valid key are closed although blank lines keep arriving', async () => {
    const { server } = await start({ keylessIdleMs: 200 });
    const dripping = await openRaw(server.port);
    await dripping.write('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    await dripping.received(/^HTTP\/1\.1 200 /);
    const drip = setInterval(() => dripping.socket.write('\r\n'), 20);
    try {
      await waitFor(dripping.closed, { timeoutMs: 10_000, what: 'the end' });
    } finally {
      clearInterval(drip);
    }
  });
});

describe('pipelined requests', () => {
  /** Starts a listener that holds its answers until they are released. */
  async function startHeld(connections: number) {
    const held: (() => void)[] = [];
    const server = await listen({
      fetch: ({ url }) =>
        new Promise((resolve) => held.push(() => resolve(new Response(new URL(url).pathname)))),
      host: '127.0.0.1',
      port: 0,
      portSetting: 'PORT',
      nextId: String,
    });
    servers.push(server);
    const all = await Promise.all(Array.from({ length: connections }, () => openRaw(server.port)));
    return { held, all, release: () => held.splice(0).forEach((letGo) => void letGo()) };
  }
  const pipelined = (count: number) =>
    Array.from({ length: count }, (_, i) => `GET /${i} HTTP/1.1\r\nHost: x\r\n\r\n`).join('');
  const numbers = (connection: RawConnection) =>
    [...connection.text().matchAll(/\r\n\r\n\/(\d+)/g)].map(([, number]) => Number(number));

  it('are parsed up to 32 ahead of their answers, and all answered in order', async () => {
    const { held, all, release } = await startHeld(1);
    const [connection] = all as [RawConnection];
    // Split at arbitrary positions, even within headers and blank lines.
    const bytes = pipelined(300);
    for (let at = 0; at < bytes.length; at += 997) await connection.write(bytes.slice(at, at + 997));
    await waitFor(() => held.length === 32, { timeoutMs: 5000, what: '32 open answers' });
    let most = 0;
    const answered = () => {
      most = Math.max(most, held.length);
      release();
      return numbers(connection).length === 300;
    };
    await waitFor(answered, { timeoutMs: 20_000, what: 'all answers' });
    expect(most).toBeLessThanOrEqual(32);
    expect(numbers(connection)).toEqual(Array.from({ length: 300 }, (_, i) => i));
  });

  it('are bounded over all connections without starving one of them', async () => {
    const { held, all, release } = await startHeld(60);
    await Promise.all(all.map((connection) => connection.write(pipelined(40))));
    await waitFor(() => held.length >= 1024, { timeoutMs: 10_000, what: 'the most open answers' });
    let most = 0;
    const answered = () => {
      most = Math.max(most, held.length);
      release();
      return all.every((connection) => numbers(connection).length === 40);
    };
    await waitFor(answered, { timeoutMs: 20_000, what: 'all answers' });
    expect(most).toBeLessThanOrEqual(1024 + 60);
  });

  it('do not delay other connections, even if their answers are read', async () => {
    let handled = 0;
    let most = 0;
    let open = true;
    const server = await listen({
      fetch: () => {
        const endMs = performance.now() + 0.2;
        while (performance.now() < endMs);
        handled += 1;
        return new Response();
      },
      host: '127.0.0.1',
      port: 0,
      portSetting: 'PORT',
      nextId: String,
    });
    servers.push(server);
    const connection = await openRaw(server.port);
    setImmediate(function turn() {
      most = Math.max(most, handled);
      handled = 0;
      if (open) setImmediate(turn);
    });
    await connection.write(pipelined(3000));
    const answers = () => connection.text().split('HTTP/1.1 200').length - 1;
    await waitFor(() => answers() === 3000, { timeoutMs: 30_000, what: 'all answers' });
    open = false;
    // A 64 KiB read contains about 1800 requests.
    expect(most).toBeLessThan(150);
  });

  it('with bodies of each framing are answered in order', async () => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    const head = `POST ${PATH} HTTP/1.1\r\n${HEADERS}`;
    // Blank lines in a body do not end a request.
    const spaced = BODY.replace(',', ',\r\n\r\n\r\n\r\n').padEnd(3000, '\r\n');
    const whole = `${head}Content-Length: ${spaced.length}\r\n\r\n${spaced}`;
    const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n${[...spaced]
      .map((byte) => `1\r\n${byte}\r\n`)
      .join('')}0\r\nt: t\r\n\r\n`;
    const unwanted = `POST /no/such HTTP/1.1\r\n${HEADERS}Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(5000)}0\r\n\r\n`;
    const bytes = `${whole}${chunked}${unwanted}\r\n${whole}${chunked}`;
    for (let at = 0; at < bytes.length; at += 7001) await connection.write(bytes.slice(at, at + 7001));
    await connection.received(/(?:HTTP\/1\.1 .*){5}"error":""/s);
    expect(
      connection
        .text()
        .match(/HTTP\/1\.1 \d+/g)!
        .map((line) => line.slice(9)),
    ).toEqual(['200', '200', '404', '200', '200']);
  });
});

describe('Expect: 100-continue', () => {
  const head = (secret: string) =>
    `POST ${PATH} HTTP/1.1\r\nHost: x\r\nservice-api-id: key-1\r\nservice-api-secret: ${secret}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\nExpect: 100-continue\r\n\r\n`;

  it('is granted when the body is read', async () => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    await connection.write(head(SECRET));
    await connection.received(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    await connection.write(BODY);
    await connection.received(/HTTP\/1\.1 200 /);
  });

  it('is ignored in HTTP/1.0, as the version requires', async () => {
    const { server } = await start();
    const wire = await openWire(`http://127.0.0.1:${server.port}`);
    const request = `${head(SECRET).replace('HTTP/1.1', 'HTTP/1.0').replace('Host: x', 'Connection: keep-alive')}${BODY}`;
    for (let count = 0; count < 2; count++) {
      wire.write(request);
      expect((await wire.next(5000)).status).toBe(200);
    }
    wire.write(request.replace(SECRET, 'wrong'));
    expect((await wire.next(5000)).status).toBe(401);
    expect(await wire.closes(100)).toBe(false);
  });

  it('is not granted without an API key, and the connection closes', async () => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    await connection.write(head('wrong'));
    await connection.received(/^HTTP\/1\.1 401 .*connection: close/is);
    await waitFor(connection.closed, { timeoutMs: 5000, what: 'the end of the connection' });
  });
});

describe('the Host header', () => {
  it.each([
    'localhost',
    'Example.COM.',
    'example.com:',
    'example.com:80',
    'example.com:443',
    '127.0.0.1:8080',
    '127.1',
    '2130706433',
    '0x7f000001',
    '[::1]',
    '[0:0:0:0:0:0:0:1]:8080',
    '[::FFFF:127.0.0.1]',
    '[fe80::1%eth0]',
    'under_score',
    'xn--bcher-kva.example',
    '%31',
    '',
  ])('may be %s, on the path of Node and on the fast path', async (host) => {
    const { server, publisher } = await start();
    const wire = await openWire(`http://127.0.0.1:${server.port}`);
    const headers = HEADERS.replace('Host: x', `Host: ${host}`);
    for (let count = 1; count <= 3; count++) {
      wire.write(`POST ${PATH} HTTP/1.1\r\n${headers}Content-Length: ${BODY.length}\r\n\r\n${BODY}`);
      expect((await wire.next(5000)).status).toBe(200);
      expect(publisher.calls).toHaveLength(count);
    }
    wire.destroy();
  });
});

describe('malformed requests', () => {
  it.each([
    ['headers over 16 KiB', `GET / HTTP/1.1\r\nHost: x\r\nx-long: ${'x'.repeat(17 * 1024)}\r\n\r\n`],
    ['more than 100 headers', `GET / HTTP/1.1\r\n${'a: b\r\n'.repeat(101)}\r\n`],
    ['garbage', 'what is this\r\n\r\n'],
    ...['a b', 'a/b', 'a@b', 'a?b', 'a#b', '[::1', '::1', '[::1]a', 'a:b', '%4', 'é'].map(
      (host) =>
        [`the Host ${host}`, `GET /health/live HTTP/1.1\r\nHost: ${host}\r\n\r\n`] as [string, string],
    ),
    ['two Host headers', 'GET /health/live HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n'],
    ['the same Host twice', 'GET /docs HTTP/1.1\r\nHost: x\r\nhOST: x\r\n\r\n'],
    ['an empty second Host', 'GET /health/live HTTP/1.0\r\nHost: x\r\nHost:\r\n\r\n'],
    ['a broken chunk', `POST ${PATH} HTTP/1.1\r\n${HEADERS}Transfer-Encoding: chunked\r\n\r\nzz\r\n`],
  ])('with %s get the 400-01 envelope, which no cache may store', async (_what, text) => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    await connection.write(text);
    await connection.received(/^HTTP\/1\.1 400 .*"requestId":"[^"]+","code":"400-01"/s);
    // Caches may store some failures by default (RFC 9111 §4.2.2).
    expect(connection.text()).toMatch(
      /cache-control: no-store\r\nvary: service-api-id, service-api-secret\r\n/i,
    );
  });

  it('do not include 15 KiB or 100 headers, HTTP/1.0 without Host, and non-ASCII header values', async () => {
    const { server } = await start();
    for (const text of [
      `GET / HTTP/1.1\r\nHost: x\r\nx-long: ${'x'.repeat(15 * 1024)}\r\n\r\n`,
      `GET / HTTP/1.1\r\n${'a: b\r\n'.repeat(100)}\r\n`,
      'GET / HTTP/1.0\r\n\r\n',
    ]) {
      const connection = await openRaw(server.port);
      await connection.write(text);
      await connection.received(/HTTP\/1\.1 404 /);
    }
    const connection = await openRaw(server.port);
    await connection.write(
      Buffer.from(
        `POST ${PATH} HTTP/1.1\r\nHost: x\r\nservice-api-id: k\u00e9\r\nservice-api-secret: \u00e9\r\n\r\n`,
      ),
    );
    await connection.received(/HTTP\/1\.1 401 /);
  });

  it.each([
    ['no header', 'GET /x HTTP/1.1\r\nno header\r\n\r\n'],
    ['no HTTP', 'nothing of the kind\r\n\r\n'],
    ['a broken chunk', `POST ${PATH} HTTP/1.1\r\n${HEADERS}Transfer-Encoding: chunked\r\n\r\nzz\r\n`],
  ])('(%s) are answered after the earlier requests of the connection', async (_what, broken) => {
    const { server } = await start();
    const wire = await openWire(`http://127.0.0.1:${server.port}`);
    const good = `POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: ${BODY.length}\r\n\r\n${BODY}`;
    wire.write(`${good}${good}${broken}`);
    const statuses = [];
    for (let count = 0; count < 3; count++) statuses.push((await wire.next(5000)).status);
    expect(statuses).toEqual([200, 200, 400]);
    expect(await wire.closes(5000)).toBe(true);
  });

  it('that continue after their refusal get one answer and no reset', async () => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    for (let count = 0; count < 50; count++) {
      connection.socket.write('nothing of the kind\r\n\r\n'.repeat(1000));
    }
    await waitFor(connection.closed, { timeoutMs: 5000, what: 'the end of the connection' });
    expect(connection.text().match(/HTTP\/1\.1 [0-9]+/g)).toEqual(['HTTP/1.1 400']);
    expect(connection.errors()).toEqual([]);
  });

  it('with the method CONNECT get 404-01', async () => {
    const { server } = await start();
    const wire = await openWire(`http://127.0.0.1:${server.port}`);
    wire.write('CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\nsomething');
    const { status, body } = await wire.next(5000);
    expect(status).toBe(404);
    expect(JSON.parse(body)).toMatchObject({ error: { code: '404-01', message: 'Not Found' } });
    expect(await wire.closes(5000)).toBe(true);
  });

  it('that arrive too slowly get 400-01, and the connection closes', async () => {
    const { server, publisher } = await start({ requestTimeoutMs: 300 });
    const connection = await openRaw(server.port);
    await connection.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: 1000\r\n\r\n{`);
    await connection.received(/"code":"400-01"/);
    await waitFor(connection.closed, { timeoutMs: 5000, what: 'the end of the connection' });
    expect(publisher.calls).toHaveLength(0);
  });

  it('that end in the middle of a body publish nothing and log no error', async () => {
    const { server, log, publisher } = await start();
    const connection = await openRaw(server.port);
    await connection.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: 1000\r\n\r\n{`);
    connection.socket.destroy();
    await waitFor(() => log().includes('"status":400'), { timeoutMs: 5000, what: 'the end of the request' });
    expect(log()).not.toContain('"level":"error"');
    expect(publisher.calls).toHaveLength(0);
  });
});

describe('answers without content', () => {
  it('have no body and no chunked framing', async () => {
    const { server } = await start();
    const connection = await openRaw(server.port);
    const message = '{"messageId":"m","augmentationType":["FREEHAND"]}';
    await connection.write(
      `POST /compose-assist/v1/analytics/message-sent HTTP/1.1\r\n${HEADERS}Content-Length: ${message.length}\r\n\r\n${message}`,
    );
    const [answer] = await connection.received(/^HTTP\/1\.1 200 .*\r\n\r\n$/s);
    expect(answer).toMatch(/content-length: 0/i);
    expect(answer).not.toMatch(/transfer-encoding|content-type/i);
  });
});

describe('draining', () => {
  it('answers with Connection: close, completes requests in flight and refuses new connections', async () => {
    const { server, publisher } = await start();
    publisher.script = undefined;
    const underWay = await openRaw(server.port);
    await underWay.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: ${BODY.length}\r\n\r\n${BODY}`);
    await waitFor(() => publisher.calls.length === 1, { timeoutMs: 5000, what: 'the publish' });
    const idle = await openRaw(server.port);
    server.startDraining();
    await idle.write('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    await idle.received(/^HTTP\/1\.1 200 .*connection: close/is);
    let closed = false;
    const closing = server.close().then(() => {
      closed = true;
    });
    await expect(openRaw(server.port)).rejects.toThrow();
    expect(closed).toBe(false);
    publisher.calls[0]!.answer('ok');
    await underWay.received(/^HTTP\/1\.1 200 .*"error":""/s);
    expect(underWay.text()).toMatch(/connection: close/i);
    await closing;
  });

  it('does not wait for idle connections', async () => {
    const { server } = await start();
    const idle = await openRaw(server.port);
    await idle.write('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    await idle.received(/HTTP\/1\.1 200 /);
    await server.close();
    await waitFor(idle.closed, { timeoutMs: 5000, what: 'the end of the idle connection' });
  });
});

describe('closing the listener', () => {
  it('does not wait for connections on which nothing was sent', async () => {
    const { server } = await start();
    const silent = await openRaw(server.port);
    await server.close();
    await waitFor(silent.closed, { timeoutMs: 5000, what: 'the end of the silent connection' });
  });

  it('closes the connections of requests that do not arrive in time', async () => {
    const { server } = await start({ closeTimeoutMs: 300 });
    const stalled = await openRaw(server.port);
    await stalled.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: 100\r\n\r\n{`);
    const half = await openRaw(server.port);
    await half.write(`POST ${PATH} HTTP/1.1\r\nHost`);
    await server.close();
    await waitFor(() => stalled.closed() && half.closed(), {
      timeoutMs: 5000,
      what: 'the end of stalled connections',
    });
  });
});

describe('listening', () => {
  it('rejects with LISTEN_FAILED and the setting if the port is in use', async () => {
    const { server } = await start();
    const second = listen({
      fetch: () => new Response(),
      host: '127.0.0.1',
      port: server.port,
      portSetting: 'PORT',
      nextId: String,
    });
    await expect(second).rejects.toMatchObject({
      code: 'LISTEN_FAILED',
      message: expect.stringMatching(/port is in use; stop the program that uses it, or set PORT$/),
    });
  });

  it('rejects with LISTEN_FAILED and the setting if the address is not of this machine', async () => {
    // A documentation address (RFC 5737), which no machine has.
    const host = '192.0.2.1';
    const listening = listen({
      fetch: () => new Response(),
      host,
      port: 0,
      portSetting: 'ADMIN_PORT',
      nextId: String,
    });
    await expect(listening).rejects.toMatchObject({
      code: 'LISTEN_FAILED',
      message: `cannot listen on ${host}:0: this machine has no such address; set ADMIN_HOST to one that it has, or to 0.0.0.0 for all`,
    });
  });
});

function headers() {
  return { 'service-api-id': 'key-1', 'service-api-secret': SECRET, 'content-type': 'application/json' };
}
