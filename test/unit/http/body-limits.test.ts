import { request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { gunzipBounded } from '../../../shared/http/json-body/content.ts';
import { SECRET } from '../../support/gateway-app.ts';
import { BODY, HEADERS, MIB, PATH, startGateway } from '../../support/listener.ts';
import { openRaw } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

describe('a body over the size limit', () => {
  it('of 100 MB with Content-Length gets 413-01 while it is sent and leaves the connection open', async () => {
    const { server } = await startGateway();
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
    const { server } = await startGateway();
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
    const { server } = await startGateway();
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const sending = request(
        {
          port: server.port,
          path: PATH,
          method: 'POST',
          headers: {
            'service-api-id': 'key-1',
            'service-api-secret': SECRET,
            'content-type': 'application/json',
          },
        },
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
    const { server } = await startGateway();
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

describe('a body of a request over the request rate', () => {
  it('of 20 MB gets 429-01 unread and leaves the connection open', async () => {
    const clock = { ms: 0, nowMs: () => clock.ms };
    const limits = { tenantRate: 1, keyRate: undefined, byteRate: 'none' as const, dailyQuota: undefined };
    const { server, bodyMemory } = await startGateway({}, { clock, keys: { 'key-1': { limits } } });
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
    const { server, log } = await startGateway({}, { clock, keys: { 'key-1': { limits: MIB_PER_SECOND } } });
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
    const { server, bodyMemory } = await startGateway({}, { bodyBytesMax: 2000 });
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
    const { server, bodyMemory } = await startGateway({}, { bodyBytesMax: 2000 });
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
    const { server, bodyMemory, publisher } = await startGateway({}, { bodyBytesMax: 128 * 1024 });
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
