import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { inTransaction } from '../../shared/postgres/pool.ts';
import { runRetention } from '../../shared/postgres/retention/run-retention.ts';
import { ensureTimePartitions, timePartitionName } from '../../shared/postgres/time-partitions.ts';
import { insertWebhookEvents } from '../../workers/sql/webhook-events.ts';
import { findQueuedWeeks } from '../../workers/webhooks/sql/queue.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { ROOT } from '../support/program.ts';
import type { Receiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';
import { useWebhookBench } from '../support/webhook-suite.ts';
import { reply } from '../support/webhooks.ts';

const MINUTE_MS = 60_000;
const WEEK_MS = 7 * 86_400_000;

const { pool } = await createTestDatabase();
let tenantId: string;
let receiver: Receiver;
const { bench, start, numbers, received, waitForStates } = useWebhookBench(
  pool,
  { deadlineMs: 3000, leaseMs: 6000 },
  (test) => {
    ({ tenantId, receiver } = test);
  },
);

interface Waiting {
  readonly number: number;
  readonly createdAtMs: number;
  readonly parked?: boolean;
  readonly attempts?: number;
  readonly leaseToken?: string;
  readonly dueAtMs?: number;
}

/** Writes deliveries of conversation A in order, as processes of the previous release do. */
async function writeAsPreviousRelease(endpointId: string, ...deliveries: readonly Waiting[]): Promise<void> {
  for (const { number, createdAtMs, ...more } of deliveries) {
    for (const table of ['webhook_messages', 'webhook_deliveries'] as const) {
      await ensureTimePartitions(pool, table, createdAtMs, createdAtMs);
    }
    const messageId = bench.nextId();
    const createdAt = new Date(createdAtMs);
    await pool.query(
      `insert into webhook_messages (tenant_id, message_id, created_at, type, body)
       values ($1, $2, $3, 'automation.reply', convert_to($4, 'UTF8'))`,
      [tenantId, messageId, createdAt, JSON.stringify({ data: { number } })],
    );
    await pool.query(
      `insert into webhook_deliveries
         (tenant_id, endpoint_id, created_at, message_id, seq, ordering_key, state, due_at, attempts, lease_token, parked)
       values ($1, $2, $3, $4, nextval('webhook_delivery_seq'), 'A', 'pending', $5, $6, $7, $8)`,
      [
        tenantId,
        endpointId,
        createdAt,
        messageId,
        new Date(more.dueAtMs ?? createdAtMs),
        more.attempts ?? 0,
        more.leaseToken ?? null,
        more.parked ?? false,
      ],
    );
  }
}

/** Returns the SQL statement of the operations guide that begins with this text. */
function statementOf(beginning: string): string {
  const guide = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
  const blocks = [...guide.matchAll(/```sql\n([^`]*)```/g)].map((match) => match[1]!);
  return blocks.find((sql) => sql.startsWith(beginning))!;
}

test('the dispatcher sends deliveries of the previous release in order, whatever their age', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const nowMs = bench.clock.nowMs();
  await writeAsPreviousRelease(
    endpointId,
    { number: 1, createdAtMs: nowMs - 60 * WEEK_MS, attempts: 3 },
    { number: 2, createdAtMs: nowMs - 60 * WEEK_MS, parked: true },
    { number: 3, createdAtMs: nowMs - WEEK_MS, parked: true },
    { number: 4, createdAtMs: nowMs },
  );
  await bench.emit(reply(tenantId, 'A', 5));
  start();
  await waitForStates(endpointId, Array(5).fill('delivered'));
  expect(numbers()).toEqual([1, 2, 3, 4, 5]);
  expect((await bench.deliveries(endpointId)).map(({ attempts }) => attempts)).toEqual([4, 1, 1, 1, 1]);
  const { rows } = await pool.query('select 1 from webhook_queue where tenant_id = $1', [tenantId]);
  expect(rows).toEqual([]);
});

test('the dispatcher waits for deliveries that a process of the previous release is sending', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url, ['automation.reply']);
  const nowMs = bench.clock.nowMs();
  const leased = { attempts: 1, leaseToken: 'old', dueAtMs: nowMs + 10 * MINUTE_MS };
  await writeAsPreviousRelease(
    endpointId,
    { number: 1, createdAtMs: nowMs, ...leased },
    { number: 2, createdAtMs: nowMs, parked: true },
  );
  await bench.emit(reply(tenantId, 'A', 3));
  start();
  // This delivery shows that the first endpoint has been checked, because another endpoint is
  // served after it.
  const other = await bench.endpoint(tenantId, `${receiver.url}/other`, ['conversation.credentials_stored']);
  await bench.emit({ ...reply(tenantId, null, 4), type: 'conversation.credentials_stored' });
  await waitForStates(other.endpointId, ['delivered']);
  await waitFor(
    async () => {
      const { rows } = await pool.query(
        `select 1 from webhook_deliveries where endpoint_id = $1 and state = 'pending'`,
        [endpointId],
      );
      return rows.length === 1;
    },
    { timeoutMs: 20_000, what: 'all deliveries except the leased one to be moved' },
  );
  expect(numbers().filter((number) => number !== 4)).toEqual([]);

  const { rowCount } = await pool.query(
    `update webhook_deliveries set state = 'delivered', lease_token = null, finished_at = due_at
      where endpoint_id = $1 and state = 'pending' and lease_token = 'old'`,
    [endpointId],
  );
  expect(rowCount).toBe(1);
  await waitForStates(endpointId, ['delivered', 'delivered', 'delivered']);
  expect(numbers().filter((number) => number !== 4)).toEqual([2, 3]);
});

test('the dispatcher sends deliveries again that a process of the previous release left under an expired lease', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const nowMs = bench.clock.nowMs();
  start();
  await bench.emit(reply(tenantId, null, 1));
  await received(1);
  // Deliveries that the previous release writes while this release already runs.
  await writeAsPreviousRelease(
    endpointId,
    { number: 2, createdAtMs: nowMs, attempts: 1, leaseToken: 'old', dueAtMs: nowMs + 1000 },
    { number: 3, createdAtMs: nowMs, parked: true },
  );
  bench.clock.advance(MINUTE_MS);
  await waitForStates(endpointId, ['delivered', 'delivered', 'delivered']);
  expect(numbers()).toEqual([1, 2, 3]);
  const errors = (await bench.attempts(endpointId)).map(({ error }) => error);
  expect(errors).toHaveLength(4);
  expect(errors.filter((error) => error !== null)).toEqual(['the sender stopped before it knew the result']);
});

test('the rollback statement of the operations guide returns waiting deliveries to the previous release', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...[1, 2].map((number) => reply(tenantId, 'A', number)));
  await pool.query(statementOf('with waiting as (delete from webhook_queue'));
  const { rows } = await pool.query(
    'select state, parked, attempts from webhook_deliveries where endpoint_id = $1 order by seq',
    [endpointId],
  );
  expect(rows).toEqual(Array(2).fill({ state: 'pending', parked: false, attempts: 0 }));
  start();
  await waitForStates(endpointId, ['delivered', 'delivered']);
  expect(numbers()).toEqual([1, 2]);
});

test('the dispatcher sends a delivery whose weeks of messages and history were dropped', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const wasMs = bench.clock.nowMs();
  bench.clock.advance(-30 * WEEK_MS);
  const oldMs = bench.clock.nowMs();
  await bench.emit(reply(tenantId, null, 1)).catch(async () => {
    for (const table of ['webhook_messages', 'webhook_deliveries'] as const) {
      await ensureTimePartitions(pool, table, oldMs, oldMs);
    }
    await bench.emit(reply(tenantId, null, 1));
  });
  bench.clock.advance(30 * WEEK_MS);
  expect(bench.clock.nowMs()).toBeGreaterThanOrEqual(wasMs);
  const report = await runRetention({ pool, clock: bench.clock, retention: { webhooks: 30 } });
  expect(report!.dropped.map(({ partition }) => partition)).toEqual(
    expect.arrayContaining([
      timePartitionName('webhook_messages', oldMs),
      timePartitionName('webhook_deliveries', oldMs),
    ]),
  );
  start();
  await waitForStates(endpointId, ['delivered']);
  expect(numbers()).toEqual([1]);
});

test('deliveries of a conversation are numbered in commit order despite concurrent transactions', async () => {
  const { endpointId } = await bench.endpoint(tenantId, 'http://127.0.0.1:1/');
  const options = () => ({ nowMs: bench.clock.nowMs(), nextId: bench.nextId });
  const batch = (conversation: string, from: number) =>
    Array.from({ length: 300 }, (_, i) => reply(tenantId, conversation, from + i));
  await inTransaction(pool, async (slow) => {
    await insertWebhookEvents(slow, batch('A', 0), options());
    for (let i = 0; i < 5; i += 1) await bench.emit(...batch('B', 1000 + 300 * i));
    await insertWebhookEvents(slow, batch('A', 300), options());
  });
  await bench.emit(...batch('A', 600));
  const { rows } = await pool.query<{ seq: bigint; key: string; number: number }>(
    `select q.seq, q.ordering_key as key, (convert_from(m.body, 'UTF8')::json #>> '{data,number}')::int as number
       from webhook_queue q join webhook_messages m using (tenant_id, created_at, message_id)
      where q.endpoint_id = $1 order by q.seq`,
    [endpointId],
  );
  expect(rows).toHaveLength(2400);
  expect(new Set(rows.map(({ seq }) => seq)).size).toBe(2400);
  const numbersOf = (key: string) => rows.filter((row) => row.key === key).map(({ number }) => number);
  expect(numbersOf('A')).toEqual(Array.from({ length: 900 }, (_, i) => i));
  expect(numbersOf('B')).toEqual(Array.from({ length: 1500 }, (_, i) => 1000 + i));
});

/** Adds endpoints beyond the limit, as a tenant may have from before the limit existed. */
async function addEndpoints(count: number): Promise<void> {
  await pool.query(
    `insert into webhook_endpoints
       (tenant_id, endpoint_id, url, state, secret_key_id, secret_ciphertext, created_at, updated_at)
     select $1, 'endpoint' || n, 'http://127.0.0.1:1/', 'enabled', 'k', '\\x00', now(), now()
       from generate_series(1, $2::int) as n`,
    [tenantId, count],
  );
}

async function countRows(table: string): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(
    `select count(*)::int as n from ${table} where tenant_id = $1`,
    [tenantId],
  );
  return rows[0]!.n;
}

test('a transaction of more than 10,000 deliveries is refused, but never a single event', async () => {
  await addEndpoints(5001);
  const two = [1, 2].map((number) => reply(tenantId, 'A', number));
  await expect(bench.emit(...two)).rejects.toMatchObject({
    code: 'BATCH_BOUND_EXCEEDED',
    message: '2 webhook events have 10002 deliveries, and one transaction writes at most 10000',
  });
  expect([await countRows('webhook_messages'), await countRows('webhook_queue')]).toEqual([0, 0]);
  // Events without a subscribed endpoint do not count.
  await pool.query(`update webhook_endpoints set event_types = '{automation.reply}' where tenant_id = $1`, [
    tenantId,
  ]);
  const unheard = { ...reply(tenantId, 'A', 3), type: 'automation.processing_ended' as const };
  expect(await bench.emit(two[0]!, unheard)).toBe(5001);
  expect([await countRows('webhook_messages'), await countRows('webhook_queue')]).toEqual([1, 5001]);
});

test('the dispatcher writes at most 20 deliveries for each of the endpoints of a tenant that are disabled together', async () => {
  const gone = 12;
  const others = 30;
  for (let i = 0; i < gone; i += 1)
    await bench.endpoint(tenantId, `${receiver.url}/gone`, ['automation.reply']);
  for (let i = 0; i < others; i += 1) {
    await bench.endpoint(tenantId, `${receiver.url}/owner`, ['webhook.endpoint_disabled']);
  }
  receiver.script(({ path }) => (path.endsWith('/gone') ? 410 : 200));
  start();
  await bench.emit(reply(tenantId, null, 1));
  await received(gone + gone * 20);
  await waitFor(async () => (await countRows('webhook_deliveries')) === gone + gone * 20, {
    timeoutMs: 20_000,
    what: 'all to be recorded',
  });
  await waitFor(async () => (await countRows('webhook_queue')) === 0, {
    timeoutMs: 20_000,
    what: 'an empty queue',
  });
  expect(receiver.requests.filter(({ path }) => path.endsWith('/owner'))).toHaveLength(gone * 20);
});

test('findQueuedWeeks returns exact weeks in a session with few float digits', async () => {
  await bench.tenant('exact');
  const { endpointId } = await bench.endpoint('exact', receiver.url);
  const createdAtMs = Date.parse('2026-06-10T12:34:56.789Z');
  await pool.query(
    `insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, due_at)
     values ('exact', $1, 'message', $2, 1, $2)`,
    [endpointId, new Date(createdAtMs)],
  );
  const weeks = await inTransaction(pool, async (client) => {
    await client.query('set local extra_float_digits = -15');
    const found = await findQueuedWeeks(client, { tenantId: 'exact', endpointId });
    await client.query("delete from webhook_queue where tenant_id = 'exact'");
    return found;
  });
  expect(weeks).toEqual([createdAtMs]);
});
