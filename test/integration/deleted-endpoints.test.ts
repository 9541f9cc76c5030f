import { beforeAll, expect, test } from 'vitest';
import { inTransaction, type Queryable, type Statement } from '../../shared/postgres/pool.ts';
import { deleteEndpoint } from '../../shared/postgres/webhook-endpoints.ts';
import { insertWebhookEvents } from '../../workers/sql/webhook-events.ts';
import { reportQueue } from '../../workers/webhooks/queue-metrics.ts';
import { findDueEndpoints } from '../../workers/webhooks/sql/due-endpoints.ts';
import { findSubscribers } from '../../workers/webhooks/sql/endpoints.ts';
import { countEndpoints, oldestDueAtMs } from '../../workers/webhooks/sql/totals.ts';
import { metricsBy, metricValue } from '../support/metric-value.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { createWebhookBench, reply } from '../support/webhooks.ts';

const DELETED = 20_000;
/**
 * Limit of rows read: above the number of live endpoints, and far below the number of deleted ones.
 */
const READ_MAX = 1000;

const { pool } = await createTestDatabase();
const bench = createWebhookBench(pool);
const nowMs = bench.clock.nowMs();
const LATER = { nowMs: nowMs + 60_000, heldSinceMs: nowMs };

interface PlanNode {
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly PlanNode[];
}

/** Returns the number of endpoint rows that a plan read. */
function endpointsRead(node: PlanNode): number {
  const own =
    node['Relation Name'] === 'webhook_endpoints'
      ? (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
      : 0;
  return (node.Plans ?? []).reduce((sum, child) => sum + endpointsRead(child), own);
}

/** Resolves with the number of endpoint rows that each statement of an operation reads. */
async function readBy(operation: (db: Queryable) => Promise<unknown>): Promise<number[]> {
  const reads: number[] = [];
  await inTransaction(pool, async (client) => {
    await operation({
      async query(given: string | Statement, givenValues?: unknown[]) {
        const { text, values } = typeof given === 'string' ? { text: given, values: givenValues } : given;
        if (text.includes('webhook_endpoints')) {
          await client.query('savepoint explained');
          const { rows } = await client.query(`explain (analyze, format json) ${text}`, values);
          await client.query('rollback to explained');
          reads.push(endpointsRead(rows[0]['QUERY PLAN'][0].Plan));
        }
        return await client.query(text, values);
      },
    } as Queryable);
  });
  return reads;
}

beforeAll(async () => {
  await bench.tenant('tenant');
  await bench.tenant('other');
  for (let i = 0; i < 20; i += 1) await bench.endpoint('other', `https://example.com/${i}`);
  await bench.endpoint('tenant', 'https://example.com/');
  await pool.query(
    `insert into webhook_endpoints (tenant_id, endpoint_id, url, state, created_at, updated_at)
     select 'tenant', 'E' || i, 'https://example.com/', 'deleted', $1, $1 from generate_series(1, $2::integer) i`,
    [new Date(nowMs), DELETED],
  );
  await pool.query(
    `insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, due_at)
     select tenant_id, endpoint_id, 'M' || i, $1, i, $1
       from webhook_endpoints cross join generate_series(1, 2000) i where state = 'enabled'`,
    [new Date(nowMs)],
  );
  await bench.emit(reply('tenant', 'K', 0));
  await pool.query('analyze webhook_endpoints');
  await pool.query('analyze webhook_queue');
});

test.each<[string, (db: Queryable) => Promise<unknown>]>([
  ['findDueEndpoints', (db) => findDueEndpoints(db, LATER)],
  [
    'insertWebhookEvents',
    (db) => insertWebhookEvents(db, [reply('tenant', 'K', 1)], { nowMs, nextId: bench.nextId }),
  ],
  ['countEndpoints', (db) => countEndpoints(db, nowMs)],
  ['oldestDueAtMs', (db) => oldestDueAtMs(db, nowMs)],
  ['findSubscribers', (db) => findSubscribers(db, 'tenant', 'automation.reply', 10)],
])('%s does not read endpoints that are deleted', async (_, operation) => {
  const reads = await readBy(operation);
  expect(reads.length).toBeGreaterThan(0);
  expect(Math.max(...reads)).toBeLessThan(READ_MAX);
});

test('deleted endpoints do not count against the limit of a tenant', async () => {
  const { rows } = await pool.query(
    `explain (format json) select count(*) from webhook_endpoints where tenant_id = 'tenant' and state <> 'deleted'`,
  );
  expect(JSON.stringify(rows)).toContain('"Index Name":"webhook_endpoints_live"');
});

test('the metrics count endpoints by state, and deliveries that wait', async () => {
  const others = Array.from({ length: 3 }, () => bench.endpoint('other', 'https://example.com/'));
  const [failing, paused, disabled] = await Promise.all(others);
  const change = (set: string, endpointId: string) =>
    pool.query(`update webhook_endpoints set ${set} where tenant_id = 'other' and endpoint_id = $1`, [
      endpointId,
    ]);
  await change('failures = 1', failing!.endpointId);
  await change(`paused_until = '9999-01-01T00:00:00Z'`, paused!.endpointId);
  await change(`state = 'disabled'`, disabled!.endpointId);
  const end = reportQueue(pool, () => nowMs + 60_000);
  expect(await metricsBy('sluice_webhook_endpoints', 'state')).toEqual({
    healthy: 21,
    failing: 1,
    paused: 1,
    disabled: 1,
  });
  const { rows } = await pool.query('select count(*)::integer as queued from webhook_queue');
  expect(await metricValue('sluice_webhook_waiting')).toBe(rows[0].queued);
  expect(await metricValue('sluice_webhook_oldest_waiting_seconds')).toBe(60);
  expect(await metricValue('sluice_webhook_recoveries_running')).toBe(0);
  end();
  expect(await metricValue('sluice_webhook_waiting')).toBeUndefined();

  // Deliveries of endpoints that delay them are not late.
  await pool.query(`update webhook_endpoints set failures = 1 where state = 'enabled'`);
  const endFailing = reportQueue(pool, () => nowMs + 60_000);
  expect(await metricValue('sluice_webhook_oldest_waiting_seconds')).toBe(0);
  endFailing();
  await pool.query(`update webhook_endpoints set failures = 0 where state = 'enabled'`);
});

test('a deleted endpoint is due while deliveries wait for it', async () => {
  const { endpointId } = await bench.endpoint('tenant', 'https://example.com/deleted');
  const isDue = async () =>
    (await findDueEndpoints(pool, { nowMs, heldSinceMs: 0 })).some(({ id }) => id.endpointId === endpointId);
  await bench.emit(reply('tenant', 'L', 1));
  await deleteEndpoint(pool, 'tenant', endpointId, nowMs);
  expect(await isDue()).toBe(true);
  await pool.query('delete from webhook_queue where endpoint_id = $1', [endpointId]);
  expect(await isDue()).toBe(false);
});
