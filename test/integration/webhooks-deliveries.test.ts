import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { writeCursor } from '../../admin/request/cursor.ts';
import { type Admin, startAdmin } from '../../admin/start.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import {
  enableEndpoint,
  resumeEndpoint,
  updateEndpoint,
} from '../../shared/postgres/change-webhook-endpoint.ts';
import { inTransaction } from '../../shared/postgres/pool.ts';
import { parseAllowRules } from '../../shared/webhooks/addresses.ts';
import { startRecoveries, stepRecovery } from '../../workers/webhooks/recoveries.ts';
import { findDueRecoveries } from '../../workers/webhooks/sql/recoveries.ts';
import { interceptedPool } from '../support/intercepted-pool.ts';
import { createTestDatabase } from '../support/postgres.ts';
import type { Receiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';
import { useWebhookBench } from '../support/webhook-suite.ts';
import { reply } from '../support/webhooks.ts';

const { pool } = await createTestDatabase();
const logger = pino({ level: 'silent' });
const HOUR_MS = 3_600_000;
let tenantId: string;
let receiver: Receiver;
const { bench, start, numbers, received, waitForStates, afterTest } = useWebhookBench(pool, {}, (test) => {
  ({ tenantId, receiver } = test);
});
let admin: Admin;
let own: Record<string, string>;
let stranger: Record<string, string>;

beforeAll(async () => {
  admin = await startAdmin({
    pool,
    keyRing: bench.keyRing,
    clock: bench.clock,
    nextId: bench.nextId,
    logger,
    allow: parseAllowRules('127.0.0.0/8'),
    topicPrefix: 'sluice.',
    endpointsMax: 20,
    host: '127.0.0.1',
    port: 0,
    requestsPerSecond: 10_000,
    drainDelayMs: 0,
  });
  await bench.tenant('stranger');
  stranger = await keyOf('stranger');
});
beforeEach(async () => {
  own = await keyOf(tenantId);
});
afterAll(() => admin.stop());

async function keyOf(ofTenant: string): Promise<Record<string, string>> {
  const apiKeyId = bench.nextId();
  const key = { apiKeyId, tenantId: ofTenant, scopes: ['*'], rate: undefined, createdAtMs: Date.now() };
  return { 'service-api-id': apiKeyId, 'service-api-secret': await createApiKey(pool, key) };
}

async function call(method: 'GET' | 'POST', path: string, { body = undefined as unknown, as = own } = {}) {
  const response = await fetch(`http://127.0.0.1:${admin.port}/admin/v1${path}`, {
    method,
    headers: { ...as, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: JSON.parse(await response.text()) };
}

/** Reads a list page by page. */
async function list(endpointId: string, query = '', limit = 7) {
  // biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
  const items: any[] = [];
  let cursor = '';
  for (let pages = 0; pages < 100; pages += 1) {
    const path = `/webhooks/${endpointId}/deliveries?limit=${limit}${query && `&${query}`}${cursor}`;
    const { status, body } = await call('GET', path);
    expect(status, JSON.stringify(body)).toBe(200);
    items.push(...body.items);
    if (body.next === undefined) return items;
    cursor = `&cursor=${body.next}`;
  }
  throw new Error('the list does not end');
}

/** Ends waiting deliveries of an endpoint: those of the first `count` webhooks. */
async function endDeliveries(endpointId: string, state: string, count = 1_000_000): Promise<void> {
  await pool.query(
    `with ended as (
       delete from webhook_queue q
        using (select message_id from webhook_queue where endpoint_id = $1 order by seq limit $3) as first
        where q.endpoint_id = $1 and q.message_id = first.message_id
       returning q.*
     )
     insert into webhook_deliveries (tenant_id, endpoint_id, created_at, message_id, seq, ordering_key, attempts, holds,
                                     state, due_at, finished_at)
     select tenant_id, endpoint_id, created_at, message_id, seq, ordering_key, 10, holds, $2, created_at, created_at
       from ended`,
    [endpointId, state, count],
  );
}

const replies = (count: number, conversations: number, from = 0) =>
  Array.from({ length: count }, (_, n) => reply(tenantId, `c${n % conversations}`, from + n));

/** Emits webhooks at different times. */
async function emitApart(count: number, conversations = 3, apartMs = 1): Promise<void> {
  for (const event of replies(count, conversations)) {
    await bench.emit(event);
    bench.clock.advance(apartMs);
  }
}

async function recover(endpointId: string, body: object = {}) {
  const from = new Date(bench.clock.nowMs() - HOUR_MS).toISOString();
  return await call('POST', `/webhooks/${endpointId}/recover`, { body: { from, ...body } });
}

function startRecovering() {
  const recoveries = startRecoveries({ pool, clock: bench.clock, logger, pollMs: 20 });
  afterTest(() => recoveries.close());
  return recoveries;
}

async function ended(jobId: string) {
  return await waitFor(
    async () => {
      const { body } = await call('GET', `/jobs/${jobId}`);
      return body.state === 'running' ? undefined : body;
    },
    { timeoutMs: 20_000, what: 'the end of the job' },
  );
}

test('the list of deliveries has each delivery once, newest first, and filters by every member', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await emitApart(30);
  await endDeliveries(endpointId, 'delivered', 12);
  await endDeliveries(endpointId, 'failed', 5);
  const all = await list(endpointId);
  expect(all).toHaveLength(30);
  expect(new Set(all.map(({ deliveryId }) => deliveryId)).size).toBe(30);
  const times = all.map(({ createdAt }) => createdAt);
  expect(times).toEqual([...times].sort().reverse());
  expect(all[0]).toMatchObject({
    state: 'waiting',
    type: 'automation.reply',
    conversation: 'c2',
    attempts: 0,
  });

  const ids = (items: typeof all) => items.map(({ deliveryId }) => deliveryId);
  const expected = (matches: (one: (typeof all)[number]) => boolean) => ids(all.filter(matches));
  expect(ids(await list(endpointId, 'state=failed'))).toEqual(expected(({ state }) => state === 'failed'));
  expect(ids(await list(endpointId, 'state=waiting', 3))).toEqual(
    expected(({ state }) => state === 'waiting'),
  );
  expect(await list(endpointId, 'state=in-flight')).toEqual([]);
  expect(ids(await list(endpointId, 'conversation=c1', 2))).toEqual(
    expected(({ conversation }) => conversation === 'c1'),
  );
  expect(ids(await list(endpointId, 'type=automation.reply'))).toEqual(ids(all));
  expect(await list(endpointId, 'type=webhook.test')).toEqual([]);
  const range = `from=${times[20]}&to=${times[4]}`;
  expect(ids(await list(endpointId, range))).toEqual(ids(all.slice(5, 21)));

  const path = `/webhooks/${endpointId}/deliveries`;
  expect((await call('GET', path, { as: stranger })).status).toBe(404);
  expect((await call('GET', `${path}?from=${times[4]}&to=${times[20]}`)).status).toBe(422);
  expect((await call('GET', `${path}?state=lost`)).status).toBe(400);
  expect((await call('GET', `${path}?cursor=other`)).status).toBe(400);
  const places = [
    '1.x',
    '-1.x/start',
    '1.a/2.b/3.c',
    '999999999999999.x/start',
    'end/253402300800000.x',
    '/',
  ];
  for (const place of places) {
    const cursor = writeCursor([tenantId, 'deliveries', endpointId, '{}'], place);
    expect((await call('GET', `${path}?cursor=${cursor}`)).status, place).toBe(400);
  }
});

test('a delivery ends between two pages and is listed once', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await emitApart(10);
  const path = `/webhooks/${endpointId}/deliveries?limit=4`;
  const first = (await call('GET', path)).body;
  await endDeliveries(endpointId, 'delivered');
  const second = (await call('GET', `${path}&cursor=${first.next}`)).body;
  const third = (await call('GET', `${path}&cursor=${second.next}`)).body;
  const ids = [first, second, third].flatMap(({ items }) =>
    items.map(({ webhookId }: { webhookId: string }) => webhookId),
  );
  expect([ids.length, new Set(ids).size, third.next]).toEqual([10, 10, undefined]);
});

test('a delivery that is sent again between two pages is listed once', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await emitApart(10, 3, 20_000);
  await endDeliveries(endpointId, 'failed');
  const path = `/webhooks/${endpointId}/deliveries?limit=4`;
  const all = await list(endpointId);
  const sendAgain = async (from: number, to: number) => {
    for (const { deliveryId } of all.slice(from, to))
      await call('POST', `/deliveries/${deliveryId}/redeliver`);
  };
  const first = (await call('GET', path)).body;
  await sendAgain(8, 10);
  const second = (await call('GET', `${path}&cursor=${first.next}`)).body;
  await sendAgain(0, 8);
  const third = (await call('GET', `${path}&cursor=${second.next}`)).body;
  const ids = [first, second, third].flatMap(({ items }) =>
    items.map(({ deliveryId }: { deliveryId: string }) => deliveryId),
  );
  expect(ids).toEqual(all.map(({ deliveryId }) => deliveryId));
  expect(third.next).toBeUndefined();
});

test('the webhooks of a record are found from the record and from the list', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const event = reply(tenantId, 'c', 1);
  await bench.emit({ ...event, data: { automationAgentMessageId: 'event-1', ...event.data } }, event);
  await pool.query(
    `insert into event_keys (tenant_id, kind, key, status, generation, partition, "offset", accepted_at, stored_at,
                             updated_at, expires_at)
     select $1, 'automation-events', 'event-1', 'stored', 1, 0, 1, created_at, created_at, created_at, created_at
       from webhook_messages where tenant_id = $1 limit 1`,
    [tenantId],
  );
  const [found, ...others] = await list(endpointId, 'recordId=event-1');
  expect(others).toEqual([]);
  const details = (await call('GET', `/deliveries/${found.deliveryId}`)).body;
  expect(JSON.parse(details.body).data.automationAgentMessageId).toBe('event-1');
  const shown = (await call('GET', '/events/event-1')).body;
  expect(shown.deliveries).toEqual([found]);
  expect(await list(endpointId, 'recordId=event-2')).toEqual([]);
});

test('a delivery shows its attempts with their parts and answers, and is sent again with the same id', async () => {
  receiver.script(({ headers }, response) => {
    const isFirst = receiver.requests.length === 1;
    response.writeHead(isFirst ? 500 : 200).end(`signed ${headers['webhook-signature']}`);
    return undefined;
  });
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(reply(tenantId, 'c', 1));
  start();
  await received(1);
  await waitFor(async () => (await bench.attempts(endpointId)).length === 1, {
    timeoutMs: 20_000,
    what: 'the attempt to be stored',
  });
  const { deliveryId } = (await list(endpointId))[0];
  const path = `/deliveries/${deliveryId}`;
  // It waits for 5 seconds, and is due immediately when it is asked for.
  expect((await call('POST', `${path}/redeliver`)).status).toBe(202);
  await waitForStates(endpointId, ['delivered']);
  const again = await call('POST', `${path}/redeliver`);
  expect([again.status, again.body.state, again.body.redelivered]).toEqual([202, 'waiting', true]);
  await waitForStates(endpointId, ['delivered']);
  await received(3);
  expect(new Set(receiver.requests.map(({ messageId }) => messageId)).size).toBe(1);
  await waitFor(async () => (await bench.attempts(endpointId)).length === 3, {
    timeoutMs: 20_000,
    what: 'three attempts to be stored',
  });

  const { body } = await call('GET', path);
  expect(body).toMatchObject({ state: 'delivered', attempts: 1, redelivered: true, conversation: 'c' });
  expect(body.attemptLog).toMatchObject([
    {
      attempt: 1,
      status: 500,
      errorClass: 'status',
      answer: 'signed [redacted]',
      firstByteMs: expect.any(Number),
    },
    { attempt: 2, repetition: 0, status: 200, errorClass: null, error: null },
    { attempt: 1, repetition: 1, status: 200 },
  ]);
  expect(body.attemptLog[0].connectMs).toEqual(expect.any(Number));
  expect((await call('GET', path, { as: stranger })).status).toBe(404);
  expect((await call('POST', `${path}/redeliver`, { as: stranger })).status).toBe(404);
});

test('a waiting delivery shows what it waits for, and when it is attempted', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await emitApart(4, 4);
  const [due, retried, parked, leased] = (await list(endpointId)).reverse();
  const inAnHour = new Date(bench.clock.nowMs() + HOUR_MS);
  const set = (values: string, { webhookId }: { webhookId: string }, at = inAnHour) =>
    pool.query(
      `update webhook_queue set ${values} where endpoint_id = $1 and message_id = $2 and $3::timestamptz > $4::timestamptz`,
      [endpointId, webhookId, at, new Date(0)],
    );
  await set('due_at = $3::timestamptz, attempts = 2', retried);
  await set('parked = true', parked);
  await set(`lease_token = 'x', due_at = $3::timestamptz`, leased);
  const shown = async () =>
    (await list(endpointId)).reverse().map(({ waitsFor, nextAttemptAt }) => [waitsFor, nextAttemptAt]);
  const pausedUntil = (at: Date | null) =>
    pool.query('update webhook_endpoints set paused_until = $2 where endpoint_id = $1', [endpointId, at]);
  expect(await shown()).toEqual([
    [null, due.createdAt],
    ['retry', inAnHour.toISOString()],
    ['earlier-webhook', null],
    [null, null],
  ]);
  const inAMinute = new Date(bench.clock.nowMs() + 60_000);
  await pausedUntil(inAMinute);
  expect((await shown()).slice(0, 2)).toEqual([
    ['retry-after', inAMinute.toISOString()],
    ['retry', inAnHour.toISOString()],
  ]);
  expect((await call('POST', `/webhooks/${endpointId}/pause`)).status).toBe(200);
  expect(await shown()).toEqual([...Array(3).fill(['paused', null]), [null, null]]);
  const again = await call('POST', `/deliveries/${retried.deliveryId}/redeliver`);
  expect([again.status, again.body.waitsFor, again.body.nextAttemptAt]).toEqual([202, 'paused', null]);
});

test('jobs are listed by the tenant, newest first, with what their range leaves out', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...replies(5, 5));
  await endDeliveries(endpointId, 'failed', 2);
  const first = await recover(endpointId);
  expect(first.body).toMatchObject({ waiting: 3 });
  expect((await call('POST', `/jobs/${first.body.jobId}/cancel`)).status).toBe(200);
  const second = await recover(endpointId, { from: '2020-01-01T00:00:00Z', to: '2020-01-02T00:00:00Z' });
  expect(second.body).toMatchObject({ waiting: 0 });
  const page = await call('GET', '/jobs?limit=1');
  expect(page.body.items).toMatchObject([{ jobId: second.body.jobId, state: 'running', endpointId }]);
  const last = await call('GET', `/jobs?limit=1&cursor=${page.body.next}`);
  expect([last.body.items.map(({ jobId }: { jobId: string }) => jobId), last.body.next]).toEqual([
    [first.body.jobId],
    undefined,
  ]);
  expect((await call('GET', '/jobs', { as: stranger })).body).toEqual({ items: [] });
  expect((await call('GET', `/jobs?cursor=${page.body.next}`, { as: stranger })).status).toBe(400);
});

test('a delivery that cannot be sent again is refused with the reason', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(reply(tenantId, 'c', 1), reply(tenantId, 'd', 2));
  const [one, other] = await list(endpointId);
  await pool.query(
    `update webhook_queue set lease_token = 'x', due_at = $2 where endpoint_id = $1 and message_id = $3`,
    [endpointId, new Date(bench.clock.nowMs() + 30_000), one.webhookId],
  );
  const reasonOf = async (deliveryId: string) => {
    const { status, body } = await call('POST', `/deliveries/${deliveryId}/redeliver`);
    return status === 409 ? body.error.details[0].message : status;
  };
  expect(await reasonOf(one.deliveryId)).toContain('is being sent now');
  await endDeliveries(endpointId, 'failed');
  await pool.query('delete from webhook_messages where message_id = $1', [one.webhookId]);
  expect(await reasonOf(one.deliveryId)).toContain('its body was erased');
  await pool.query(`update webhook_endpoints set state = 'disabled' where endpoint_id = $1`, [endpointId]);
  expect(await reasonOf(other.deliveryId)).toContain('enable the endpoint first');
  expect((await recover(endpointId)).body.error.details[0].message).toContain('enable the endpoint first');
});

test('requests to send a delivery again neither lock its endpoint nor queue it twice', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(reply(tenantId, 'c', 1));
  await endDeliveries(endpointId, 'failed');
  const [{ deliveryId }] = await list(endpointId);
  await inTransaction(pool, async (client) => {
    // As a dispatcher does, which skips endpoints that others have locked.
    await client.query(
      'select 1 from webhook_endpoints where tenant_id = $1 and endpoint_id = $2 for no key update',
      [tenantId, endpointId],
    );
    const calls = Array.from({ length: 8 }, () => call('POST', `/deliveries/${deliveryId}/redeliver`));
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(Array(8).fill(202));
  });
  start();
  await waitForStates(endpointId, ['delivered']);
  expect(receiver.requests).toHaveLength(1);
});

test('a recovery sends what was not delivered, in the order of each conversation, after newer webhooks', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...replies(40, 4));
  await endDeliveries(endpointId, 'delivered', 10);
  await endDeliveries(endpointId, 'failed', 20);
  await endDeliveries(endpointId, 'dropped');
  start();
  startRecovering();
  const started = await recover(endpointId);
  expect([started.status, started.body.state, started.body.droppedWeeks]).toEqual([201, 'running', []]);
  await bench.emit(...replies(40, 4, 100));
  const job = await ended(started.body.jobId);
  expect(job).toMatchObject({ state: 'completed', total: 30, queued: 30, skipped: 0, progress: 1 });
  await received(70);
  await waitForStates(endpointId, Array(80).fill('delivered'));
  const sent = numbers() as number[];
  expect([...sent].sort((a, b) => a - b)).toEqual([
    ...Array.from({ length: 30 }, (_, n) => n + 10),
    ...Array.from({ length: 40 }, (_, n) => n + 100),
  ]);
  for (let conversation = 0; conversation < 4; conversation += 1) {
    for (const isNew of [false, true]) {
      const own = sent.filter((number) => number % 4 === conversation && number >= 100 === isNew);
      expect(own).toEqual([...own].sort((a, b) => a - b));
    }
  }
});

test('a recovery of delivered webhooks is asked for by state, and is refused while another one runs', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...replies(5, 5));
  await endDeliveries(endpointId, 'delivered');
  const started = await recover(endpointId, { states: ['delivered'] });
  const { jobId } = started.body;
  const second = await recover(endpointId);
  expect([second.status, second.body.error.details[0].message]).toEqual([
    409,
    expect.stringContaining(jobId),
  ]);
  const from = new Date(bench.clock.nowMs()).toISOString();
  const reversed = await recover(endpointId, { from, to: new Date(0).toISOString() });
  expect([reversed.status, reversed.body.error.details[0].path]).toEqual([422, 'to']);
  const empty = await recover(endpointId, { from: '2026-11-30T00:00:00Z', to: '2026-11-30T00:00:00Z' });
  expect([empty.status, empty.body.error.details[0].message]).toEqual([422, 'must be after from']);
  const misspelt = await recover(endpointId, { state: ['failed'] });
  expect([misspelt.status, misspelt.body.error.details[0].message]).toEqual([
    422,
    'is not a member of this request: the nearest is states',
  ]);

  const other = await bench.endpoint('stranger', receiver.url);
  expect((await recover(other.endpointId)).status).toBe(404);
  for (const [method, path] of [
    ['GET', `/jobs/${jobId}`],
    ['POST', `/jobs/${jobId}/cancel`],
  ] as const) {
    expect((await call(method, path, { as: stranger })).status).toBe(404);
  }
  start();
  startRecovering();
  expect(await ended(jobId)).toMatchObject({ state: 'completed', queued: 5 });
  await received(5);
  expect((await call('POST', `/jobs/${jobId}/cancel`)).status).toBe(409);
  expect((await recover(endpointId)).status).toBe(201);
});

test('a recovery is cancelled, and what it has queued is sent', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...replies(30, 30));
  await endDeliveries(endpointId, 'failed');
  const { jobId } = (await recover(endpointId)).body;
  // Counts, and queues 16.
  for (let step = 0; step < 2; step += 1)
    await stepRecovery({ pool, clock: bench.clock }, { tenantId, jobId });
  const cancelled = await call('POST', `/jobs/${jobId}/cancel`);
  expect([cancelled.status, cancelled.body]).toMatchObject([
    200,
    { state: 'cancelled', total: 30, queued: 16 },
  ]);
  expect((await call('POST', `/jobs/${jobId}/cancel`)).status).toBe(200);
  bench.clock.advance(1000);
  await stepRecovery({ pool, clock: bench.clock }, { tenantId, jobId });
  start();
  await received(16);
  expect(await list(endpointId, 'state=failed', 100)).toHaveLength(14);
});

test('a recovery whose process is killed after any statement queues each delivery once', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...replies(60, 60));
  await endDeliveries(endpointId, 'failed');
  const { jobId } = (await recover(endpointId)).body;
  let killedAfter = 0;
  for (let isRunning = true; isRunning; killedAfter += 1) {
    let statements = 0;
    const killed = interceptedPool(pool, () => {
      if (statements++ === killedAfter) throw new Error('killed');
    });
    await stepRecovery({ pool: killed, clock: bench.clock }, { tenantId, jobId }).catch(() => undefined);
    // Two other processes continue concurrently.
    bench.clock.advance(200);
    const step = () => stepRecovery({ pool, clock: bench.clock }, { tenantId, jobId });
    if (killedAfter % 3 === 0) await Promise.all([step(), step()]);
    await pool.query('update webhook_queue set due_at = $2 where endpoint_id = $1', [
      endpointId,
      new Date(bench.clock.nowMs() + HOUR_MS),
    ]);
    isRunning = (await call('GET', `/jobs/${jobId}`)).body.state === 'running';
  }
  expect(killedAfter).toBeGreaterThan(5);
  expect((await call('GET', `/jobs/${jobId}`)).body).toMatchObject({ queued: 60, skipped: 0, total: 60 });
  const waiting = await list(endpointId, '', 100);
  expect(waiting.map(({ state }) => state)).toEqual(Array(60).fill('waiting'));
  expect(new Set(waiting.map(({ webhookId }) => webhookId)).size).toBe(60);
});

test('a failing webhook of a recovery holds later ones of the recovery, but no new ones', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script(({ json }) => (json.data.number === 0 ? 500 : 200));
  await bench.emit(...replies(3, 1));
  await endDeliveries(endpointId, 'failed');
  start();
  startRecovering();
  const { jobId } = (await recover(endpointId)).body;
  await ended(jobId);
  await received(1);
  await bench.emit(...replies(3, 1, 100));
  await received(4);
  expect(numbers()).toEqual([0, 100, 101, 102]);
  receiver.script(() => 200);
  bench.clock.advance(6000);
  await received(7);
  expect(numbers()).toEqual([0, 100, 101, 102, 0, 1, 2]);
});

test('a recovery leaves out erased webhooks, and names the weeks that retention has dropped', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...replies(4, 4));
  await endDeliveries(endpointId, 'failed');
  const { webhookId } = (await list(endpointId))[0];
  await pool.query('delete from webhook_messages where message_id = $1', [webhookId]);
  const weeks = 21 * 24 * HOUR_MS;
  await pool.query('update webhook_endpoints set created_at = $2 where endpoint_id = $1', [
    endpointId,
    new Date(bench.clock.nowMs() - weeks),
  ]);
  const { body } = await recover(endpointId, { from: '2020-01-01T00:00:00Z' });
  expect(body.droppedWeeks.length).toBeGreaterThanOrEqual(3);
  for (const monday of body.droppedWeeks) expect(new Date(monday).getUTCDay()).toBe(1);
  startRecovering();
  expect(await ended(body.jobId)).toMatchObject({ state: 'completed', total: 4, queued: 3, skipped: 1 });
});

test('a recovery of a failing endpoint says in words that it is slow', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...replies(4, 4));
  await endDeliveries(endpointId, 'failed');
  await pool.query('update webhook_endpoints set failures = 1 where endpoint_id = $1', [endpointId]);
  const { jobId } = (await recover(endpointId)).body;
  for (let step = 0; step < 2; step += 1)
    await stepRecovery({ pool, clock: bench.clock }, { tenantId, jobId });
  expect((await call('GET', `/jobs/${jobId}`)).body).toMatchObject({
    queued: 1,
    reason: 'is slow: the last attempt at the endpoint failed',
  });
});

test('a recovery that waits continues when its endpoint is resumed, enabled or gets another URL', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const { jobId } = (await recover(endpointId)).body;
  const changes = [
    ['/resume', resumeEndpoint],
    ['/enable', enableEndpoint],
    [
      '?url',
      (...[db, id, nowMs]: Parameters<typeof enableEndpoint>) =>
        updateEndpoint(db, id, { url: `${receiver.url}/new` }, nowMs),
    ],
  ] as const;
  for (const [what, change] of changes) {
    await pool.query(`update webhook_recoveries set step_at = now() + interval '1 day' where job_id = $1`, [
      jobId,
    ]);
    await change(pool, { tenantId, endpointId }, bench.clock.nowMs());
    expect(await findDueRecoveries(pool, bench.clock.nowMs(), 1), what).toEqual([{ tenantId, jobId }]);
  }
});

test('a recovery waits while its endpoint is disabled, and fails once it is deleted', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...replies(4, 4));
  await endDeliveries(endpointId, 'failed');
  const { jobId } = (await recover(endpointId)).body;
  const setState = (state: string) =>
    pool.query('update webhook_endpoints set state = $2 where endpoint_id = $1', [endpointId, state]);
  await setState('disabled');
  startRecovering();
  await waitFor(async () => (await call('GET', `/jobs/${jobId}`)).body.reason?.includes('is disabled'), {
    timeoutMs: 20_000,
    what: 'the reason to be shown',
  });
  await setState('deleted');
  bench.clock.advance(6000);
  expect(await ended(jobId)).toMatchObject({
    state: 'failed',
    reason: 'the endpoint was deleted',
    queued: 0,
  });
});
