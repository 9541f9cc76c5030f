import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createResolve, type ResolveOptions } from '../../../shared/webhooks/resolve.ts';
import { waitFor } from '../../support/wait.ts';

const NO_SUCH_NAME = 3;
const SERVER_FAILURE = 2;
const FOUND = [{ address: '192.0.2.1', family: 4 }];
const { signal } = new AbortController();
let stop: () => Promise<void> = async () => {};
let responseCode = NO_SUCH_NAME;
let nameServers: string[] = [];

/** Starts a name server that answers every query with {@link responseCode}. */
beforeEach(async () => {
  responseCode = NO_SUCH_NAME;
  const server = createSocket('udp4');
  server.on('message', (query, { address, port }) => {
    const answer = Buffer.from(query);
    answer.writeUInt16BE(0x8180 + responseCode, 2);
    server.send(answer, port, address);
  });
  server.bind(0, '127.0.0.1');
  await once(server, 'listening');
  nameServers = [`127.0.0.1:${server.address().port}`];
  stop = async () => {
    server.close();
    await once(server, 'close');
  };
});

afterEach(() => stop());

function createTestResolve(lookup: NonNullable<ResolveOptions['lookup']>) {
  return createResolve({ nameServers, lookup });
}

test('a name that DNS does not know is refused while the system looks up another one', async () => {
  const asked: string[] = [];
  let settle = (_: typeof FOUND) => {};
  const resolve = createTestResolve((host) => {
    asked.push(host);
    return new Promise((found) => {
      settle = found;
    });
  });
  const first = resolve('first.test', signal);
  await waitFor(() => asked.length === 1, { timeoutMs: 3000, what: 'the first lookup' });
  await expect(resolve('second.test', signal)).rejects.toMatchObject({
    code: 'HOST_NOT_FOUND',
    retryable: true,
  });
  settle(FOUND);
  expect(await first).toEqual(['192.0.2.1']);
  const third = resolve('third.test', signal);
  await waitFor(() => asked.length === 2, { timeoutMs: 3000, what: 'the next lookup' });
  settle(FOUND);
  expect(await third).toEqual(['192.0.2.1']);
  expect(asked).toEqual(['first.test', 'third.test']);
});

test('a lookup of the system that fails does not block the next one', async () => {
  const lookups = [() => Promise.reject(new Error('of a test')), () => Promise.resolve(FOUND)];
  const resolve = createTestResolve(() => lookups.shift()!());
  await expect(resolve('first.test', signal)).rejects.toMatchObject({ code: 'HOST_NOT_FOUND' });
  expect(await resolve('second.test', signal)).toEqual(['192.0.2.1']);
});

test('the system is not asked for a name whose name server fails', async () => {
  responseCode = SERVER_FAILURE;
  let asked = 0;
  const resolve = createTestResolve(async () => {
    asked += 1;
    return FOUND;
  });
  await expect(resolve('first.test', signal)).rejects.toMatchObject({ code: 'HOST_NOT_FOUND' });
  expect(asked).toBe(0);
});
