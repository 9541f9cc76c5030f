import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { UNCACHED } from '../../shared/http/headers.ts';
import { reachTarget, targetProblem } from '../conformance/reach.ts';
import { keysByAdmin } from '../conformance/target.ts';

const key = { apiKeyId: 'key', apiKeySecret: 'secret' };

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

function gateway(status: number, code: string, message: string, headers = {}): Promise<string> {
  return listen((_request, response) => {
    response.writeHead(status, {
      ...UNCACHED,
      'content-type': 'application/json',
      'x-request-id': 'id',
      ...headers,
    });
    response.end(JSON.stringify({ error: { requestId: 'id', code, message } }));
  });
}

/** Resolves with the sentence that ends a run. */
async function problemAt(baseUrl: string, ask = () => reachTarget({ baseUrl, key }) as Promise<unknown>) {
  return targetProblem(await ask().catch((error: unknown) => error), baseUrl);
}

it('the conformance suite continues with an accepted key, and reads its limits', async () => {
  const free = await gateway(404, '404-01', 'Not Found');
  expect(await reachTarget({ baseUrl: free, key })).toBeUndefined();
  const policy = '"requests";q=2000;w=2';
  const limited = await gateway(404, '404-01', 'Not Found', { 'ratelimit-policy': policy });
  expect(await reachTarget({ baseUrl: limited, key })).toBe(policy);
});

it('the conformance suite reports in one sentence why it cannot run', async () => {
  const refusing = await gateway(401, '401-01', 'Unauthorized');
  expect(await problemAt(refusing)).toMatch(/^the key is answered 401-01 at http:\S+: use a valid key/);
  const other = await listen((_request, response) => response.end('hello'));
  expect(await problemAt(other)).toMatch(
    /^the server at \S+ is not a Sluice gateway: missing or invalid x-request-id/,
  );
  expect(await problemAt('http://127.0.0.1:1/')).toBe('http://127.0.0.1:1/ cannot be reached: ECONNREFUSED');
  const admin = 'http://127.0.0.1:2/';
  expect(await problemAt(refusing, () => keysByAdmin(admin, key).make('one-scope', []))).toBe(
    `${admin} cannot be reached: ECONNREFUSED`,
  );
});

it('the conformance suite does not explain a fault of its own', () => {
  expect(targetProblem(new TypeError('x is not a function'), 'http://127.0.0.1:1/')).toBeUndefined();
});
