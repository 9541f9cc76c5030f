import { describe, expect, it } from 'vitest';
import { openWire } from '../../support/http-wire.ts';
import { BODY, HEADERS, PATH, startGateway } from '../../support/listener.ts';
import { metricGrowth } from '../../support/metric-value.ts';
import { openRaw } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

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
  ])('with %s get the 400-01 envelope, which no cache may store, and are counted', async (_what, text) => {
    const { server } = await startGateway({ listener: 'gateway' });
    const counted = await metricGrowth('sluice_http_requests_total', { listener: 'gateway' });
    const connection = await openRaw(server.port);
    await connection.write(text);
    await connection.received(/^HTTP\/1\.1 400 .*"requestId":"[^"]+","code":"400-01"/s);
    // Caches may store some failures by default (RFC 9111 §4.2.2).
    expect(connection.text()).toMatch(
      /cache-control: no-store\r\nvary: service-api-id, service-api-secret\r\n/i,
    );
    connection.socket.end();
    await waitFor(connection.closed, { timeoutMs: 5000, what: 'the end of the connection' });
    await waitFor(async () => (await counted()) > 0, { timeoutMs: 5000, what: 'the count' });
    expect(await counted()).toBe(1);
  });

  it('do not include 15 KiB or 100 headers, HTTP/1.0 without Host, and non-ASCII header values', async () => {
    const { server } = await startGateway();
    for (const text of [
      `GET /unknown HTTP/1.1\r\nHost: x\r\nx-long: ${'x'.repeat(15 * 1024)}\r\n\r\n`,
      `GET /unknown HTTP/1.1\r\n${'a: b\r\n'.repeat(100)}\r\n`,
      'GET /unknown HTTP/1.0\r\n\r\n',
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
    const { server } = await startGateway();
    const wire = await openWire(`http://127.0.0.1:${server.port}`);
    const good = `POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: ${BODY.length}\r\n\r\n${BODY}`;
    wire.write(`${good}${good}${broken}`);
    const statuses = [];
    for (let count = 0; count < 3; count++) statuses.push((await wire.next(5000)).status);
    expect(statuses).toEqual([200, 200, 400]);
    expect(await wire.closes(5000)).toBe(true);
  });

  it('that continue after their refusal get one answer and no reset', async () => {
    const { server } = await startGateway();
    const connection = await openRaw(server.port);
    for (let count = 0; count < 50; count++) {
      connection.socket.write('nothing of the kind\r\n\r\n'.repeat(1000));
    }
    await waitFor(connection.closed, { timeoutMs: 5000, what: 'the end of the connection' });
    expect(connection.text().match(/HTTP\/1\.1 [0-9]+/g)).toEqual(['HTTP/1.1 400']);
    expect(connection.errors()).toEqual([]);
  });

  it('with the method CONNECT get 404-01', async () => {
    const { server } = await startGateway();
    const wire = await openWire(`http://127.0.0.1:${server.port}`);
    wire.write('CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\nsomething');
    const { status, body } = await wire.next(5000);
    expect(status).toBe(404);
    expect(JSON.parse(body)).toMatchObject({ error: { code: '404-01', message: 'Not Found' } });
    expect(await wire.closes(5000)).toBe(true);
  });

  it('that arrive too slowly get 400-01, and the connection closes', async () => {
    const { server, publisher } = await startGateway({ requestTimeoutMs: 300 });
    const connection = await openRaw(server.port);
    await connection.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: 1000\r\n\r\n{`);
    await connection.received(/"code":"400-01"/);
    await waitFor(connection.closed, { timeoutMs: 5000, what: 'the end of the connection' });
    expect(publisher.calls).toHaveLength(0);
  });

  it('that end in the middle of a body publish nothing and log no error', async () => {
    const { server, log, publisher } = await startGateway();
    const connection = await openRaw(server.port);
    await connection.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: 1000\r\n\r\n{`);
    connection.socket.destroy();
    await waitFor(() => log().includes('"status":400'), { timeoutMs: 5000, what: 'the end of the request' });
    expect(log()).not.toContain('"level":"error"');
    expect(publisher.calls).toHaveLength(0);
  });
});
