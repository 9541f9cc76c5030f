import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import type { HttpContext } from '../../../shared/http/env.ts';
import { withoutOwnSecret } from '../../../shared/http/headers.ts';
import { SECRET } from '../../support/gateway-app.ts';
import { openWire } from '../../support/http-wire.ts';
import { BODY, HEADERS, PATH, startGateway } from '../../support/listener.ts';
import { openRaw } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

describe('Expect: 100-continue', () => {
  const head = (secret: string) =>
    `POST ${PATH} HTTP/1.1\r\nHost: x\r\nservice-api-id: key-1\r\nservice-api-secret: ${secret}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\nExpect: 100-continue\r\n\r\n`;

  it('is granted when the body is read', async () => {
    const { server } = await startGateway();
    const connection = await openRaw(server.port);
    await connection.write(head(SECRET));
    await connection.received(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    await connection.write(BODY);
    await connection.received(/HTTP\/1\.1 200 /);
  });

  it('is ignored in HTTP/1.0, as the version requires', async () => {
    const { server } = await startGateway();
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
    const { server } = await startGateway();
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
    const { server, publisher } = await startGateway();
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

it.each([
  ['/admin/v1/webhooks/portal_AbC-1.dEf_2/x', '/admin/v1/webhooks/[redacted]/x'],
  ['portal_AbC.dEf', '[redacted]'],
  [`/keys/${'s'.repeat(43)}`, '/keys/[redacted]'],
  ['/webhooks/whsec_AbC%2F/d=', '/webhooks/[redacted]'],
  [`/events/${'s'.repeat(44)}/01M8QDCCB2ZHV7NSCHADR16YHN`, undefined],
  ['s'.repeat(43), undefined],
])('the secret in %s is not logged, although the request does not show it', async (text, logged = text) => {
  const app = new Hono().get('*', (c) => c.text(withoutOwnSecret(c as unknown as HttpContext, text)));
  expect(await (await app.request('/')).text()).toBe(logged);
});
