import { Webhook } from 'standardwebhooks';
import { expect, test } from 'vitest';
import { RawJson } from '../../shared/contracts/json.ts';
import { deleteEndpoint } from '../../shared/postgres/webhook-endpoints.ts';
import { metricGrowth } from '../support/metric-value.ts';
import { createTestDatabase } from '../support/postgres.ts';
import type { Receiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';
import { useWebhookBench } from '../support/webhook-suite.ts';
import { reply } from '../support/webhooks.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const { pool } = await createTestDatabase();
let tenantId: string;
let receiver: Receiver;
const { bench, start, numbers, received, states, waitForStates, waitForAttempts } = useWebhookBench(
  pool,
  { deadlineMs: 3000, leaseMs: 6000 },
  (test) => {
    ({ tenantId, receiver } = test);
  },
);

test('the dispatcher delivers an event to each subscribed endpoint, signed over exactly the stored bytes', async () => {
  const all = await bench.endpoint(tenantId, `${receiver.url}/all`);
  const replies = await bench.endpoint(tenantId, `${receiver.url}/replies`, ['automation.reply']);
  await bench.endpoint(tenantId, `${receiver.url}/others`, ['conversation.credentials_stored']);
  await bench.tenant(`${tenantId}x`);
  await bench.endpoint(`${tenantId}x`, `${receiver.url}/stranger`);
  start();
  const data = { text: 'żółw 🐢', inputVariables: new RawJson('{"price":1.0,"n":12345678901234567890}') };
  const deliveries = await bench.emit({
    tenantId,
    type: 'automation.reply',
    orderingKey: 'C1',
    timestampMs: Date.UTC(2026, 1, 3),
    data,
  });
  expect(deliveries).toBe(2);
  await received(2);
  await waitForStates(all.endpointId, ['delivered']);

  const paths = receiver.requests.map(({ path }) => path).sort();
  expect(paths).toEqual(['/hooks/all', '/hooks/replies']);
  for (const { path, body, headers, json } of receiver.requests) {
    const { secret } = path === '/hooks/all' ? all : replies;
    new Webhook(secret).verify(body, headers as Record<string, string>);
    expect(body.toString()).toContain('{"price":1.0,"n":12345678901234567890}');
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'user-agent': 'Sluice-Webhooks/1' });
    expect(json).toMatchObject({ type: 'automation.reply', timestamp: '2026-02-03T00:00:00.000Z' });
    expect(json.data.text).toBe('żółw 🐢');
  }
  const { rows } = await pool.query('select body from webhook_messages where tenant_id = $1', [tenantId]);
  expect(rows.map((row) => row.body.toString())).toEqual([receiver.requests[0]!.body.toString()]);
  expect(receiver.requests[0]!.messageId).toBe(receiver.requests[1]!.messageId);
});

test('the metrics count attempts by result and class, delays, and deliveries by final state', async () => {
  const grown = {
    delivered: await metricGrowth('sluice_webhook_attempts_total', { result: 'delivered', class: '' }),
    status: await metricGrowth('sluice_webhook_attempts_total', { result: 'failed', class: 'status' }),
    connect: await metricGrowth('sluice_webhook_attempts_total', { result: 'failed', class: 'connect' }),
    durations: await metricGrowth('sluice_webhook_attempt_duration_seconds_count', { result: 'failed' }),
    delays: await metricGrowth('sluice_webhook_delay_seconds_count'),
    delaySeconds: await metricGrowth('sluice_webhook_delay_seconds_sum'),
    endedDelivered: await metricGrowth('sluice_webhook_deliveries_total', { state: 'delivered' }),
    endedFailed: await metricGrowth('sluice_webhook_deliveries_total', { state: 'failed' }),
    dropped: await metricGrowth('sluice_webhook_deliveries_total', { state: 'dropped' }),
  };
  const replies = ['automation.reply'] as const;
  const healthy = await bench.endpoint(tenantId, receiver.url, replies);
  const gone = await bench.endpoint(tenantId, `${receiver.url}/gone`, replies);
  const dead = await bench.endpoint(tenantId, 'http://127.0.0.1:9/', replies);
  receiver.script(({ path }) => (path.endsWith('/gone') ? 410 : 200));
  await bench.emit(reply(tenantId, null, 1));
  // The deliveries are due before the dispatcher starts.
  bench.clock.advance(2000);
  start();
  await waitForStates(healthy.endpointId, ['delivered']);
  await waitForStates(gone.endpointId, ['failed']);
  await waitForAttempts(dead.endpointId, 1);
  await deleteEndpoint(pool, tenantId, dead.endpointId, bench.clock.nowMs());
  bench.clock.advance(6000);
  await waitForStates(dead.endpointId, ['dropped']);
  await waitFor(async () => (await grown.dropped()) === 1, { timeoutMs: 5000, what: 'the count' });
  const found = await Promise.all(Object.entries(grown).map(async ([name, by]) => [name, await by()]));
  expect(Object.fromEntries(found)).toEqual({
    delivered: 1,
    status: 1,
    connect: 1,
    durations: 2,
    delays: 3,
    delaySeconds: expect.any(Number),
    endedDelivered: 1,
    endedFailed: 1,
    dropped: 1,
  });
  expect(await grown.delaySeconds()).toBeGreaterThanOrEqual(6);
});

test('an event without subscribers writes no message', async () => {
  await bench.endpoint(tenantId, receiver.url, ['webhook.endpoint_disabled']);
  expect(await bench.emit(reply(tenantId, 'C1', 1))).toBe(0);
  const { rows } = await pool.query('select 1 from webhook_messages where tenant_id = $1', [tenantId]);
  expect(rows).toEqual([]);
});

test('the dispatcher delivers a conversation in order, and holds back only the failing one', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  let broken = true;
  receiver.script(({ json }) => (broken && json.data.number === 10 ? 500 : 200));
  start();
  await bench.emit(...[10, 11, 12].map((n) => reply(tenantId, 'A', n)));
  await bench.emit(...Array.from({ length: 20 }, (_, i) => reply(tenantId, 'B', 20 + i)));
  await waitForStates(endpointId, ['pending', 'pending', 'pending', ...Array(20).fill('delivered')]);
  await waitForAttempts(endpointId, 21);
  expect(numbers().filter((n) => n !== 10)).toEqual(Array.from({ length: 20 }, (_, i) => 20 + i));

  broken = false;
  bench.clock.advance(6000);
  await waitForStates(endpointId, Array(23).fill('delivered'));
  expect(numbers().slice(-3)).toEqual([10, 11, 12]);
  expect((await bench.attempts(endpointId)).filter(({ status }) => status === 500)).toHaveLength(1);
});

test('the dispatcher retries by the schedule with the same id and a new timestamp, ten attempts in all', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script(() => 500);
  start({ random: () => 0.5 });
  const startedAtMs = bench.clock.nowMs();
  await bench.emit(reply(tenantId, null, 1));
  const delays = [5 / 60, 5, 30, 120, 300, 600, 840, 1200, 1440].map((minutes) => minutes * MINUTE_MS);
  for (const [index, delayMs] of delays.entries()) {
    const beforeMs = bench.clock.nowMs();
    if (index > 0) bench.clock.advance(delays[index - 1]!);
    await waitForAttempts(endpointId, index + 1);
    const [delivery] = await bench.deliveries(endpointId);
    const failedAtMs = delivery!.due_at.getTime() - delayMs;
    expect(failedAtMs).toBeGreaterThanOrEqual(beforeMs);
    expect(failedAtMs).toBeLessThanOrEqual(bench.clock.nowMs());
  }
  bench.clock.advance(delays.at(-1)!);
  await waitForStates(endpointId, ['failed']);
  expect(receiver.requests).toHaveLength(10);
  expect(new Set(receiver.requests.map(({ messageId }) => messageId)).size).toBe(1);
  const spentMs = delays.reduce((sum, ms) => sum + ms);
  const lastSeconds = Number(receiver.requests.at(-1)!.headers['webhook-timestamp']);
  expect(lastSeconds).toBeGreaterThanOrEqual(Math.floor((startedAtMs + spentMs) / 1000));
  expect((await bench.attempts(endpointId)).map(({ attempt }) => attempt)).toEqual([
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
  ]);
});

test('the dispatcher sends a whole conversation after an hour without a success', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script(() => 500);
  start({ random: () => 0.5 });
  await bench.emit(...[1, 2, 3, 4].map((n) => reply(tenantId, 'A', n)));
  await waitForAttempts(endpointId, 1);
  bench.clock.advance(HOUR_MS - MINUTE_MS);
  await waitForAttempts(endpointId, 2);
  expect(new Set(numbers())).toEqual(new Set([1]));

  bench.clock.advance(2 * MINUTE_MS);
  await waitFor(() => new Set(numbers()).size === 4, { timeoutMs: 10_000, what: 'all 4 deliveries' });
  await bench.emit(reply(tenantId, 'A', 5));
  await waitFor(() => numbers().includes(5), {
    timeoutMs: 10_000,
    what: 'a later delivery, without waiting',
  });
});

test('the dispatcher sends the next delivery of a conversation an hour after the first failed at a healthy endpoint', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script(({ json }) => (json.data.number === 1 || json.data.number === 2 ? 500 : 200));
  start({ random: () => 0.5 });
  await bench.emit(...[1, 2, 3].map((n) => reply(tenantId, 'A', n)));
  await waitForAttempts(endpointId, 1);
  bench.clock.advance(1000);
  await bench.emit(reply(tenantId, 'B', 4));
  await waitFor(() => numbers().includes(4), { timeoutMs: 10_000, what: 'the other conversation' });
  bench.clock.advance(HOUR_MS);
  await waitFor(() => numbers().includes(2), {
    timeoutMs: 10_000,
    what: 'the next delivery of the conversation',
  });
  await waitFor(async () => (await bench.attempts(endpointId)).length === numbers().length, {
    timeoutMs: 10_000,
    what: 'all recorded',
  });
  expect(numbers()).not.toContain(3);
  const [first, second, third] = await bench.deliveries(endpointId);
  expect([first!.holds, second!.holds, third!.parked]).toEqual([false, true, true]);
  // The first delivery no longer blocks its conversation: the third waits only for the second's
  // hour.
  bench.clock.advance(HOUR_MS + 1000);
  await waitFor(() => numbers().includes(3), { timeoutMs: 10_000, what: 'the third delivery' });
});

test('an endpoint gets 16 concurrent exchanges from two dispatchers, and one at a time after five consecutive failures', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const waiting: (() => void)[] = [];
  receiver.script(() => new Promise((resolve) => waiting.push(() => resolve(500))));
  start();
  start();
  await bench.emit(...Array.from({ length: 40 }, (_, n) => reply(tenantId, null, n)));
  await received(16);
  expect(receiver.open).toEqual({ now: 16, most: 16 });
  for (const answer of waiting.splice(0)) answer();
  await received(17);
  await waitForAttempts(endpointId, 16);
  expect(receiver.open).toEqual({ now: 1, most: 16 });

  receiver.script(() => 200);
  for (const answer of waiting.splice(0)) answer();
  await waitFor(
    async () => (await states(endpointId)).filter((state) => state === 'delivered').length === 23,
    {
      timeoutMs: 10_000,
      what: 'all deliveries except the 17 failed ones',
    },
  );
});

test('the dispatcher disables an endpoint that answers 410, drops its deliveries and notifies the tenant', async () => {
  const gone = await bench.endpoint(tenantId, `${receiver.url}/gone`, ['automation.reply']);
  await bench.endpoint(tenantId, `${receiver.url}/owner`, ['webhook.endpoint_disabled']);
  receiver.script(({ path }) => (path.endsWith('/gone') ? 410 : 200));
  start();
  await bench.emit(...[1, 2, 3].map((n) => reply(tenantId, 'A', n)));
  await waitForStates(gone.endpointId, ['failed', 'dropped', 'dropped']);
  await received(2);
  expect(receiver.requests[1]).toMatchObject({
    path: '/hooks/owner',
    json: {
      type: 'webhook.endpoint_disabled',
      data: { endpointId: gone.endpointId, url: `${receiver.url}/gone`, reason: 'gone' },
    },
  });
  expect(await bench.emit(reply(tenantId, 'A', 4))).toBe(0);
});

test('the dispatcher pauses all deliveries of an endpoint that answers with Retry-After', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script((_, response) => {
    response.setHeader('retry-after', '600');
    return 503;
  });
  start();
  await bench.emit(reply(tenantId, null, 1));
  await waitForAttempts(endpointId, 1);
  receiver.script(() => 200);
  await bench.emit(reply(tenantId, null, 2));
  bench.clock.advance(9 * MINUTE_MS);
  // The other endpoint is served after the pause was checked, so the pause was kept, not just slow.
  const other = await bench.endpoint(tenantId, `${receiver.url}/other`);
  await bench.emit(reply(tenantId, null, 3));
  await waitForStates(other.endpointId, ['delivered']);
  expect(receiver.requests).toHaveLength(2);
  bench.clock.advance(2 * MINUTE_MS);
  await waitForStates(endpointId, ['delivered', 'delivered', 'delivered']);
});

test('the dispatcher drops the deliveries of a deleted endpoint and erases its secret', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...[1, 2].map((n) => reply(tenantId, 'A', n)));
  await deleteEndpoint(pool, tenantId, endpointId, bench.clock.nowMs());
  start();
  await waitForStates(endpointId, ['dropped', 'dropped']);
  expect(receiver.requests).toEqual([]);
  const { rows } = await pool.query(
    'select secret_ciphertext from webhook_endpoints where endpoint_id = $1',
    [endpointId],
  );
  expect(rows).toEqual([{ secret_ciphertext: null }]);
});

test('the dispatcher sends to the URL that the endpoint has at dispatch', async () => {
  const { endpointId } = await bench.endpoint(tenantId, 'http://127.0.0.1:1/');
  await bench.emit(reply(tenantId, null, 1));
  await pool.query('update webhook_endpoints set url = $1 where endpoint_id = $2', [
    receiver.url,
    endpointId,
  ]);
  start();
  await waitForStates(endpointId, ['delivered']);
});

test('the dispatcher retries at the endpoint that failed, and sends nothing again to the others', async () => {
  const failing = await bench.endpoint(tenantId, `${receiver.url}/failing`);
  const healthy = await bench.endpoint(tenantId, `${receiver.url}/healthy`);
  receiver.script(({ path }) => (path.endsWith('/failing') && receiver.requests.length < 3 ? 500 : 200));
  start({ random: () => 0 });
  await bench.emit(reply(tenantId, 'A', 1));
  await waitForStates(healthy.endpointId, ['delivered']);
  await waitForAttempts(failing.endpointId, 1);
  bench.clock.advance(6000);
  await waitForStates(failing.endpointId, ['delivered']);
  const paths = receiver.requests.map(({ path }) => path.split('/').at(-1)).sort();
  expect(paths).toEqual(['failing', 'failing', 'healthy']);
  expect(new Set(receiver.requests.map(({ messageId }) => messageId)).size).toBe(1);
});
