import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { ROOT } from '../../support/program.ts';

const TENANTS = 20;
const REQUESTS = 64;

it('a gateway with a heap of 64 MB refuses valid batches that do not fit, and survives', async () => {
  const module = path.join(import.meta.dirname, '../../support/gateway-child.mjs');
  const child = fork(module, [`${ROOT}dist/`, JSON.stringify({ publishMs: 1000 })], {
    execArgv: ['--max-old-space-size=64'],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [port] = (await once(child, 'message')) as [number];
  const send = async (key: string, body: Buffer) => {
    const answer = await fetch(`http://127.0.0.1:${port}/metadata-ingestion/v1/many-agent-metadata`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'service-api-id': key,
        'service-api-secret': 'secret',
      },
      body,
    });
    await answer.arrayBuffer();
    return answer.status;
  };
  const attributes = Array.from({ length: 9 }, (_, name) => ({ name: `n${name}`, value: 'v'.repeat(350) }));
  const large = batchOf({ attributes });
  const statuses = await Promise.all(
    Array.from({ length: REQUESTS }, (_, number) => send(`key-${number % TENANTS}`, large)),
  );
  expect(statuses).toHaveLength(REQUESTS);
  expect(statuses).toContain(503);
  expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect(await send('key-0', batchOf({}))).toBe(200);
  expect([child.exitCode, child.signalCode]).toEqual([null, null]);
}, 120_000);

function batchOf(members: object): Buffer {
  const items = Array.from({ length: 1000 }, (_, number) => ({
    externalAgentId: `agent-${number}`,
    ...members,
  }));
  return Buffer.from(JSON.stringify({ items }));
}
