import { Webhook } from 'standardwebhooks';
import { expect, onTestFinished, test } from 'vitest';
import { storedFilters } from '../../shared/contracts/webhook-filters.ts';
import type { WebhookType } from '../../shared/contracts/webhooks.ts';
import {
  enableEndpoint,
  pauseEndpoint,
  resumeEndpoint,
  updateEndpoint,
} from '../../shared/postgres/change-webhook-endpoint.ts';
import { deleteEndpoint, findEndpoints } from '../../shared/postgres/webhook-endpoints.ts';
import { changeEndpointState } from '../../shared/webhooks/change-endpoint-state.ts';
import { encryptHeaders } from '../../shared/webhooks/endpoint-headers.ts';
import { endpointHealth } from '../../shared/webhooks/endpoint-health.ts';
import { rotateSecret } from '../../shared/webhooks/rotate-secret.ts';
import { eraseEndpointSecrets } from '../../workers/sql/endpoint-secrets.ts';
import { createTestDatabase } from '../support/postgres.ts';
import type { Receiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';
import { useWebhookBench } from '../support/webhook-suite.ts';
import { reply } from '../support/webhooks.ts';

const HOUR_MS = 3_600_000;
/** Milliseconds within which a change takes effect, with those of a busy machine. */
const EFFECT_MS = 1000 + 300;

const { pool } = await createTestDatabase();
let tenantId: string;
let receiver: Receiver;
const { bench, start, numbers, received, states, waitForStates, waitForAttempts } = useWebhookBench(
  pool,
  { deadlineMs: 3000, leaseMs: 6000, pollMs: 1000 },
  (test) => {
    ({ tenantId, receiver } = test);
  },
);

const idOf = (endpointId: string) => ({ tenantId, endpointId });
const nowMs = () => bench.clock.nowMs();

async function healthOf(endpointId: string): Promise<string> {
  const [endpoint] = await findEndpoints(pool, [tenantId], endpointId);
  return endpointHealth(endpoint!, nowMs());
}

/** Records when requests arrive, and answers each after some milliseconds. */
function recordArrivals(answerMs: number): number[] {
  const arrivals: number[] = [];
  receiver.script(async () => {
    arrivals.push(performance.now());
    await new Promise((resolve) => setTimeout(resolve, answerMs));
    return 200;
  });
  return arrivals;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test('a paused endpoint keeps its deliveries, and sends them in order once it is resumed', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const arrivals = recordArrivals(20);
  start();
  const perKey = 100;
  const emit = (from: number, to: number) =>
    bench.emit(
      ...Array.from({ length: to - from }, (_, i) => from + i).flatMap((n) =>
        ['A', 'B', 'C'].map((key) => reply(tenantId, key, n)),
      ),
    );
  await emit(0, perKey);
  await received(30);

  await pauseEndpoint(pool, idOf(endpointId), nowMs());
  const pausedAtMs = performance.now();
  await emit(perKey, perKey + 10);
  await pause(EFFECT_MS + 500);
  const late = arrivals.filter((at) => at > pausedAtMs + EFFECT_MS);
  expect([late.length, await healthOf(endpointId)]).toEqual([0, 'paused']);
  expect((await states(endpointId)).filter((state) => state === 'pending').length).toBeGreaterThan(100);

  const sentBefore = arrivals.length;
  await resumeEndpoint(pool, idOf(endpointId), nowMs());
  const resumedAtMs = performance.now();
  await waitForStates(endpointId, Array(3 * (perKey + 10)).fill('delivered'));
  expect(arrivals[sentBefore]! - resumedAtMs).toBeLessThan(EFFECT_MS);
  for (const key of ['A', 'B', 'C']) {
    const sent = receiver.requests.filter(({ json }) => json.data.externalConversationId === key);
    expect(sent.map(({ json }) => json.data.number)).toEqual(
      Array.from({ length: perKey + 10 }, (_, i) => i),
    );
  }
  expect(await healthOf(endpointId)).toBe('healthy');
});

test('a pause of hours does not end the order of a conversation that failed before', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  let broken = true;
  receiver.script(({ json }) => (broken && json.data.number === 1 ? 500 : 200));
  start({ random: () => 0.5, pollMs: 100 });
  await bench.emit(...[1, 2, 3].map((n) => reply(tenantId, 'A', n)));
  await waitForAttempts(endpointId, 1);
  await pauseEndpoint(pool, idOf(endpointId), nowMs());
  bench.clock.advance(3 * HOUR_MS);
  await resumeEndpoint(pool, idOf(endpointId), nowMs());
  await waitForAttempts(endpointId, 2);
  await bench.emit(reply(tenantId, 'B', 9));
  await waitFor(() => numbers().includes(9), { timeoutMs: 10_000, what: 'the other conversation' });
  expect(numbers().filter((n) => n !== 9)).toEqual([1, 1]);
  broken = false;
  bench.clock.advance(400_000);
  await waitForStates(endpointId, Array(4).fill('delivered'));
  expect(numbers().slice(-3)).toEqual([1, 2, 3]);
});

test('another URL and other types take effect within a second, and wait for nothing', async () => {
  const { endpointId } = await bench.endpoint(tenantId, `${receiver.url}/old`);
  start();
  let emitting = true;
  const emitted = (async () => {
    for (let n = 0; emitting; n += 1) {
      await bench.emit(reply(tenantId, `C${n % 5}`, n));
      await pause(2);
    }
  })();
  await received(20);
  const changedAt = performance.now();
  await updateEndpoint(pool, idOf(endpointId), { url: `${receiver.url}/new` }, nowMs());
  await waitFor(() => receiver.requests.at(-1)!.path.endsWith('/new'), {
    timeoutMs: 5000,
    what: 'the new URL',
  });
  expect(performance.now() - changedAt).toBeLessThan(EFFECT_MS);
  await pause(Math.max(0, EFFECT_MS - (performance.now() - changedAt)));
  const sinceEffect = receiver.requests.length;
  await received(sinceEffect + 20);
  expect(receiver.requests.slice(sinceEffect).filter(({ path }) => path.endsWith('/old'))).toEqual([]);

  await updateEndpoint(pool, idOf(endpointId), { eventTypes: ['conversation.*'] }, nowMs());
  await pause(50);
  const before = (await bench.deliveries(endpointId)).length;
  await pause(200);
  expect((await bench.deliveries(endpointId)).length).toBe(before);
  emitting = false;
  await emitted;
});

test('a filter with * selects the types of its group, also of later releases', async () => {
  const group = await bench.endpoint(tenantId, `${receiver.url}/group`, ['automation.*']);
  await bench.endpoint(tenantId, `${receiver.url}/other`, ['conversation.*', 'webhook.test']);
  const { rows } = await pool.query('select event_types from webhook_endpoints where endpoint_id = $1', [
    group.endpointId,
  ]);
  // What processes of the previous release compare.
  expect(rows[0].event_types).toEqual(storedFilters(['automation.*']).eventTypes);
  start();
  const later = { ...reply(tenantId, 'A', 1), type: 'automation.later' as WebhookType };
  expect(await bench.emit(later, reply(tenantId, 'A', 2))).toBe(2);
  await waitForStates(group.endpointId, ['delivered', 'delivered']);
  expect(receiver.requests.map(({ path, json }) => [path, json.type])).toEqual([
    ['/hooks/group', 'automation.later'],
    ['/hooks/group', 'automation.reply'],
  ]);
});

test('a receiver that verifies with either secret misses nothing during a rotation', async () => {
  const { endpointId, secret: old } = await bench.endpoint(tenantId, receiver.url);
  let known = old;
  const failures: unknown[] = [];
  receiver.script(({ body, headers }) => {
    try {
      new Webhook(known).verify(body, headers as Record<string, string>);
      return 200;
    } catch (error) {
      failures.push(error);
      return 400;
    }
  });
  start();
  start();
  let emitted = 0;
  const emit = async (count: number) => {
    for (let i = 0; i < count; i += 1) {
      await bench.emit(reply(tenantId, `C${emitted % 7}`, emitted++));
      await pause(2);
    }
  };
  const deps = { pool, keyRing: bench.keyRing, clock: bench.clock };
  await emit(50);
  const rotating = emit(100);
  const rotated = await rotateSecret(deps, idOf(endpointId), { overlapMs: HOUR_MS, secret: undefined });
  await rotating;
  await waitForStates(endpointId, Array(emitted).fill('delivered'));
  if (!rotated.ok) throw new Error('not rotated');
  const switching = emit(100);
  known = rotated.secret;
  await switching;
  await waitForStates(endpointId, Array(emitted).fill('delivered'));
  expect([failures, receiver.requests.length]).toEqual([[], emitted]);
  const signatures = () => String(receiver.requests.at(-1)!.headers['webhook-signature']).split(' ').length;
  expect(signatures()).toBe(2);

  // A second overlap would end a secret that a receiver may still use.
  expect(await rotateSecret(deps, idOf(endpointId), { overlapMs: 1, secret: undefined })).toMatchObject({
    ok: false,
    why: 'rotating',
  });
  receiver.script(() => 200);
  bench.clock.advance(HOUR_MS + 1000);
  await emit(1);
  await waitForStates(endpointId, Array(emitted).fill('delivered'));
  expect(signatures()).toBe(1);

  expect(await eraseEndpointSecrets(pool, nowMs(), 10)).toBe(1);
  const { rows } = await pool.query(
    'select previous_secret_ciphertext as previous, previous_secret_until as until from webhook_endpoints where endpoint_id = $1',
    [endpointId],
  );
  expect(rows).toEqual([{ previous: null, until: null }]);
});

test('two dispatchers together send at the rate of the endpoint, evenly spaced', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const other = await bench.endpoint(tenantId, `${receiver.url}/other`);
  await updateEndpoint(pool, idOf(endpointId), { ratePerSecond: 50 }, nowMs());
  const arrivals: number[] = [];
  let otherArrivedLast = 0;
  receiver.script(({ path, json }) => {
    if (path.endsWith('/other')) {
      otherArrivedLast = performance.now();
      return 200;
    }
    arrivals.push(performance.now());
    // A failure gives back what was claimed, whose times are used again.
    return json.data.number === 20 ? 500 : 200;
  });
  await bench.emit(...Array.from({ length: 121 }, (_, n) => reply(tenantId, `C${n % 30}`, n)));
  const stalls = measureStalls();
  start();
  start();
  await waitForStates(other.endpointId, Array(121).fill('delivered'));
  await waitFor(() => arrivals.length >= 117, { timeoutMs: 15_000, what: '117 requests' });
  const mostWithin = (ms: number) =>
    Math.max(...arrivals.map((from) => arrivals.filter((at) => at >= from && at < from + ms).length));
  expect(otherArrivedLast).toBeLessThan(arrivals[116]!);
  // The receiver is in this process too: after a stall, what was to arrive meanwhile arrives together.
  const late = 10 + Math.ceil(50 * (stalls.totalMs() / 1000));
  expect(mostWithin(1000)).toBeLessThanOrEqual(50 + late);
  expect(mostWithin(200)).toBeLessThanOrEqual(10 + late);
  const perSecond = 116 / ((arrivals[116]! - arrivals[0]!) / 1000);
  expect(perSecond).toBeGreaterThan(15);
  expect(perSecond).toBeLessThan(52);
});

test('a change of the rate keeps the times that were taken, except for those of a lower rate', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const at = nowMs();
  const nextAfter = async (ratePerSecond: number | null, nextSendMs: number | null) => {
    const next = nextSendMs === null ? null : new Date(nextSendMs);
    await pool.query('update webhook_endpoints set next_send_at = $2 where endpoint_id = $1', [
      endpointId,
      next,
    ]);
    await updateEndpoint(pool, idOf(endpointId), { ratePerSecond }, at);
    const { rows } = await pool.query(
      'select next_send_at as next from webhook_endpoints where endpoint_id = $1',
      [endpointId],
    );
    return rows[0].next?.getTime() ?? null;
  };
  expect(await nextAfter(1, at + 1500)).toBe(at + 1500);
  expect(await nextAfter(1, null)).toBeNull();
  expect(await nextAfter(100, at + 1500)).toBe(at + 510);
  expect(await nextAfter(100, at + 505)).toBe(at + 505);
  expect(await nextAfter(null, at + 505)).toBe(at + 505);
});

test('custom headers are sent, and stored encrypted only until the endpoint is deleted', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const headers = encryptHeaders(bench.keyRing, idOf(endpointId), {
    Authorization: 'Bearer planted-token',
    'x-constructor': 'a b',
  });
  await updateEndpoint(pool, idOf(endpointId), { headers }, nowMs());
  start();
  await bench.emit(reply(tenantId, 'A', 1));
  await waitForStates(endpointId, ['delivered']);
  expect(receiver.requests[0]!.headers).toMatchObject({
    authorization: 'Bearer planted-token',
    'x-constructor': 'a b',
    'content-type': 'application/json',
  });
  const stored = async () =>
    (
      await pool.query(
        "select encode(headers_ciphertext, 'escape') as headers, header_names as names from webhook_endpoints where endpoint_id = $1",
        [endpointId],
      )
    ).rows[0];
  expect((await stored()).names).toEqual(['Authorization', 'x-constructor']);
  expect((await stored()).headers).not.toContain('planted');
  await deleteEndpoint(pool, tenantId, endpointId, nowMs());
  expect((await stored()).headers).toBeNull();
});

test('to resume an endpoint makes its retries due, oldest first, and a further failure waits for its back-off', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script(() => 500);
  start({ random: () => 0.5, pollMs: 100 });
  await bench.emit(...[1, 2, 3].map((n) => reply(tenantId, `C${n}`, n)));
  await waitForAttempts(endpointId, 3);
  bench.clock.advance(6000);
  await waitForAttempts(endpointId, 6);
  // The next retries are due in 5 minutes. One receiver's part still fails.
  receiver.script(({ json }) => (json.data.number === 2 ? 500 : 200));
  const resumed = await changeEndpointState(pool, idOf(endpointId), 'resume', nowMs());
  expect(resumed).toMatchObject({ kind: 'changed', retriesDue: 3 });
  await waitForStates(endpointId, ['delivered', 'pending', 'delivered']);
  expect(numbers().slice(6).sort()).toEqual([1, 2, 3]);
  const failed = (await bench.deliveries(endpointId)).find(({ state }) => state === 'pending')!;
  expect([failed.attempts, failed.due_at.getTime() > nowMs() + 20 * 60_000]).toEqual([3, true]);
});

test('to resume an endpoint makes at most 10,000 retries due at once, and none that waits for an earlier webhook', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await pool.query(
    `insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, ordering_key, due_at, parked)
     select $1, $2, 'm' || lpad(n::text, 5, '0'), $3::timestamptz, n, 'C' || n, $3::timestamptz + n * interval '1 s',
            n = 1
       from generate_series(1, 10500) n`,
    [tenantId, endpointId, new Date(nowMs())],
  );
  const resume = async () => await changeEndpointState(pool, idOf(endpointId), 'resume', nowMs());
  const startedAtMs = nowMs();
  expect([await resume(), await resume()]).toMatchObject([{ retriesDue: 10_000 }, { retriesDue: 499 }]);
  const waiting = await bench.deliveries(endpointId);
  expect(waiting.filter(({ due_at }) => due_at.getTime() < startedAtMs)).toEqual([]);
  expect(waiting.filter(({ due_at, parked }) => !parked && due_at.getTime() > nowMs())).toEqual([]);
  expect(waiting.filter(({ parked }) => parked).length).toBe(1);
});

test('an endpoint without retries gets one attempt, and the next webhook of the conversation follows', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await updateEndpoint(pool, idOf(endpointId), { retrySchedule: 'none' }, nowMs());
  receiver.script(({ json }) => (json.data.number === 1 ? 500 : 200));
  start();
  await bench.emit(...[1, 2].map((n) => reply(tenantId, 'A', n)));
  await waitForStates(endpointId, ['failed', 'delivered']);
  expect(numbers()).toEqual([1, 2]);
});

test('an endpoint that was disabled is enabled again, and its health is reported in words', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script(() => 410);
  start();
  await bench.emit(reply(tenantId, 'A', 1));
  await waitForStates(endpointId, ['failed']);
  expect(await healthOf(endpointId)).toBe('disabled because it answered 410');
  expect(await bench.emit(reply(tenantId, 'A', 2))).toBe(0);
  for (const change of ['pause', 'resume'] as const) {
    const refused = await changeEndpointState(pool, idOf(endpointId), change, nowMs());
    expect(refused).toMatchObject({ kind: 'disabled', endpoint: { pausedUntilMs: null } });
  }
  await enableEndpoint(pool, idOf(endpointId), nowMs());
  expect(await healthOf(endpointId)).toBe('healthy');
  receiver.script((_, response) => {
    response.setHeader('retry-after', '600');
    return 503;
  });
  await bench.emit(reply(tenantId, 'A', 3));
  await waitForAttempts(endpointId, 2);
  expect(await healthOf(endpointId)).toMatch(/^paused until \d{4}-.*Z$/);
  receiver.script(() => 500);
  await resumeEndpoint(pool, idOf(endpointId), nowMs());
  expect(await healthOf(endpointId)).toMatch(/^failing since \d{4}-.*Z$/);
});

/** Answers with the status of an event's number, or 200, once the gate is opened. */
function answerLate(statuses: Readonly<Record<number, number>>): () => void {
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  onTestFinished(open);
  receiver.script(async ({ json }, response) => {
    await gate;
    response.setHeader('retry-after', '600');
    return statuses[Number(json.data.number)] ?? 200;
  });
  return open;
}

test('answers of the previous URL change nothing at the new one, where what failed is sent immediately', async () => {
  const { endpointId } = await bench.endpoint(tenantId, `${receiver.url}/old`);
  const answerOld = answerLate({ 1: 410, 2: 503, 3: 500, 4: 200 });
  start();
  await bench.emit(...[1, 2, 3, 4].map((n) => reply(tenantId, `C${n}`, n)));
  await received(4);
  await updateEndpoint(pool, idOf(endpointId), { url: `${receiver.url}/new` }, nowMs());
  receiver.script(() => 200);
  answerOld();
  await waitForAttempts(endpointId, 7);
  const answered = (await bench.attempts(endpointId)).map(({ attempt, status }) => `${attempt}: ${status}`);
  expect(answered.sort()).toEqual(['1: 200', '1: 410', '1: 500', '1: 503', '2: 200', '2: 200', '2: 200']);
  expect(await states(endpointId)).toEqual(Array(4).fill('delivered'));
  const atNew = receiver.requests.filter(({ path }) => path.endsWith('/new'));
  expect(atNew.map(({ json }) => json.data.number).sort()).toEqual([1, 2, 3]);
  const [endpoint] = await findEndpoints(pool, [tenantId], endpointId);
  expect(endpoint).toMatchObject({
    state: 'enabled',
    failures: 0,
    lastFailureAtMs: null,
    pausedUntilMs: null,
  });
});

test('answers from before the owner enabled or resumed an endpoint change nothing', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  start();
  const answerGone = answerLate({ 1: 410 });
  await bench.emit(reply(tenantId, 'A', 1));
  await received(1);
  receiver.script(() => 410);
  await bench.emit(reply(tenantId, 'B', 2));
  await waitFor(async () => (await healthOf(endpointId)) === 'disabled because it answered 410', {
    timeoutMs: 5000,
    what: 'the disabled endpoint',
  });
  await enableEndpoint(pool, idOf(endpointId), nowMs());
  receiver.script(() => 200);
  answerGone();
  await waitForStates(endpointId, ['delivered', 'failed']);
  expect(await healthOf(endpointId)).toBe('healthy');

  const answerPause = answerLate({ 3: 503 });
  await bench.emit(reply(tenantId, 'A', 3));
  await received(4);
  await pauseEndpoint(pool, idOf(endpointId), nowMs());
  await resumeEndpoint(pool, idOf(endpointId), nowMs());
  receiver.script(() => 200);
  answerPause();
  await waitForStates(endpointId, ['delivered', 'failed', 'delivered']);
  expect(await healthOf(endpointId)).toBe('healthy');
});

/** Adds up for how long the process of the test does nothing, because the machine is busy. */
function measureStalls() {
  const EVERY_MS = 10;
  let totalMs = 0;
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    if (now - last > 3 * EVERY_MS) totalMs += now - last - EVERY_MS;
    last = now;
  }, EVERY_MS);
  onTestFinished(() => clearInterval(timer));
  return { totalMs: () => totalMs };
}
