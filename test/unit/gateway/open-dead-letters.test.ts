import { expect, it } from 'vitest';
import { createGatewayApp } from '../../support/gateway-app.ts';
import { waitFor } from '../../support/wait.ts';

const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const WAIT = { timeoutMs: 5000, what: 'the gateway to notice' };

it('the gateway refuses a tenant with too many bytes of open dead letters with 429-01 before it publishes', async () => {
  let over: readonly string[] = [];
  let fails = false;
  const gateway = createGatewayApp({
    findOver: async () => {
      if (fails) throw new Error('connection refused');
      return over;
    },
  });
  let sent = 0;
  const send = () => gateway.post(AGENTS, { items: [{ externalAgentId: `a-${++sent}` }] });
  const statusBecomes = (status: number) => waitFor(async () => (await send()).status === status, WAIT);

  expect((await send()).status).toBe(200);
  over = ['tenant-1'];
  await statusBecomes(429);
  const published = gateway.publisher.calls.length;
  const refused = await send();
  expect(await refused.json()).toMatchObject({
    error: {
      code: '429-01',
      details: [{ path: 'dead-letters', message: expect.stringContaining('1000000 bytes') }],
    },
  });
  expect(refused.headers.get('retry-after')).toBe('60');
  expect(refused.headers.get('ratelimit')).toContain('"dead-letters";r=0;t=60');
  expect(gateway.publisher.calls).toHaveLength(published);

  // While the database is unavailable, the last result is used.
  over = [];
  fails = true;
  expect((await send()).status).toBe(429);
  fails = false;
  await statusBecomes(200);
  over = ['another'];
  expect((await send()).status).toBe(200);
});
