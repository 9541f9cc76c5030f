import { describe, expect, it } from 'vitest';
import { SECRET } from '../../support/gateway-app.ts';
import { BODY, HEADERS, MIB, PATH, startGateway } from '../../support/listener.ts';
import { openRaw } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

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
    const { server } = await startGateway();
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
    const { server } = await startGateway();
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
    const { server } = await startGateway();
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
    const { server } = await startGateway();
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
    const { server, publisher } = await startGateway();
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
