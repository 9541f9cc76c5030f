import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { addEarlierIds, readMessages } from '../../cli/sql/message-recount.ts';
import { listAttempts } from '../../cli/sql/webhooks.ts';
import { readAutomationCounts } from '../../shared/postgres/automation-counts.ts';
import { insertCredentialRead, listCredentialReads } from '../../shared/postgres/credential-reads.ts';
import { readEnded, readQueued } from '../../shared/postgres/deliveries/delivery-stream.ts';
import { readDelivery } from '../../shared/postgres/deliveries/find-delivery.ts';
import { findMessagesOfRecord, findOfMessages } from '../../shared/postgres/deliveries/record-deliveries.ts';
import { requeueDeliveries } from '../../shared/postgres/deliveries/requeue.ts';
import type { Statement as GivenStatement, Queryable } from '../../shared/postgres/pool.ts';
import { ensureTimePartitions, TIME_PARTITIONED_TABLES } from '../../shared/postgres/time-partitions.ts';
import { insertAttempts } from '../../shared/postgres/webhook-attempts.ts';
import { insertWebhookEvents } from '../../workers/sql/webhook-events.ts';
import { backfillQueue, findEndpointsToBackfill } from '../../workers/webhooks/sql/backfill-queue.ts';
import { findDueEndpoints } from '../../workers/webhooks/sql/due-endpoints.ts';
import { dropWaiting, finishDeliveries } from '../../workers/webhooks/sql/history.ts';
import { endHolds, parkDeliveries, unparkAll, unparkNext } from '../../workers/webhooks/sql/holds.ts';
import {
  countLeasedByOthers,
  endLostLeases,
  findDueDeliveries,
  findQueuedWeeks,
  findWithoutBody,
  leaseDeliveries,
} from '../../workers/webhooks/sql/queue.ts';
import { countRecoverable, examineDeliveries } from '../../workers/webhooks/sql/recoveries.ts';
import { extendLeases, giveBack, recordResults } from '../../workers/webhooks/sql/results.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { ROOT } from '../support/program.ts';
import { createWebhookBench, reply } from '../support/webhooks.ts';

const WEEK_MS = 7 * 86_400_000;
const WEEKS = 60;

const { pool } = await createTestDatabase();
const bench = createWebhookBench(pool);
const nowMs = bench.clock.nowMs();
/**
 * Partitions of this week and of the weeks created ahead, plus one because a range may begin or end
 * within a week.
 */
const FEW = 4;

interface Statement {
  readonly text: string;
  readonly values: unknown[] | undefined;
}

/** Returns a database that records the statements it runs. */
function recording(): { db: Queryable; statements: Statement[] } {
  const statements: Statement[] = [];
  const db: Queryable = {
    async query(given: string | GivenStatement, givenValues?: unknown[]) {
      const { text, values } = typeof given === 'string' ? { text: given, values: givenValues } : given;
      statements.push({ text, values });
      return await pool.query(text, values);
    },
  };
  return { db, statements };
}

/**
 * Resolves with the number of partitions that the planner opened for a statement, including those
 * removed at the start of the execution.
 */
async function plannedPartitions({ text, values }: Statement): Promise<number> {
  if (/pg_notify|nextval/.test(text)) return 0;
  const { rows } = await pool.query(`explain (format json) ${text}`, values);
  const json = JSON.stringify(rows[0]['QUERY PLAN']);
  const names = new Set(json.match(/"Relation Name":"\w+_p\d{8}"/g));
  const removed = [...json.matchAll(/"Subplans Removed":(\d+)/g)].reduce(
    (sum, match) => sum + Number(match[1]),
    0,
  );
  return names.size + removed;
}

beforeAll(async () => {
  for (const table of TIME_PARTITIONED_TABLES) {
    await ensureTimePartitions(pool, table, nowMs - WEEKS * WEEK_MS, nowMs + 2 * WEEK_MS);
  }
  await bench.tenant('tenant');
  await bench.endpoint('tenant', 'https://example.com/');
});

const id = { tenantId: 'tenant', endpointId: 'endpoint' };
const delivery = { createdAtMs: nowMs, messageId: 'message', orderingKey: 'K' };
const result = {
  ...id,
  ...delivery,
  token: 'token',
  attempt: 1,
  durationMs: 1,
  status: 200,
  error: null,
  answer: null,
  dueAtMs: nowMs,
};
const queued = { ...id, ...delivery, attempts: 0 };
const day = { tenantIds: ['tenant'], startMs: nowMs - WEEK_MS };
const bounds = { fromMs: nowMs - WEEK_MS, toMs: nowMs };

const list = { ...id, after: undefined, limit: 10, nowMs };
const recovery = {
  ...id,
  jobId: 'job',
  states: ['failed'],
  fromMs: nowMs - WEEK_MS,
  toMs: nowMs,
  cursorAtMs: null,
  cursorId: null,
  isCounted: true,
  stepSize: 10,
  endpointState: 'enabled',
  endpointFailures: 0,
  pausedUntilMs: null,
};

const OPERATIONS: Record<string, (db: Queryable) => Promise<unknown>> = {
  insertWebhookEvents: (db) =>
    insertWebhookEvents(db, [reply('tenant', 'K', 1)], { nowMs, nextId: bench.nextId }),
  countLeasedByOthers: (db) => countLeasedByOthers(db, [id], { nowMs, ownTokens: 'own-' }),
  dropWaiting: (db) => dropWaiting(db, id, { nowMs, limit: 10 }),
  findDueEndpoints: (db) => findDueEndpoints(db, { nowMs, heldSinceMs: nowMs }),
  endHolds: (db) => endHolds(db, id, nowMs),
  findDueDeliveries: (db) => findDueDeliveries(db, id, { nowMs, lastSuccessAtMs: null, limit: 10 }),
  finishDeliveries: (db) => finishDeliveries(db, id, [delivery], 'failed', nowMs),
  leaseDeliveries: (db) => leaseDeliveries(db, [queued], { token: 'token', untilMs: nowMs }),
  findWithoutBody: (db) => findWithoutBody(db, [queued]),
  giveBack: (db) => giveBack(db, [result]),
  extendLeases: (db) => extendLeases(db, [result], nowMs),
  parkDeliveries: (db) => parkDeliveries(db, id, [delivery]),
  endLostLeases: (db) =>
    endLostLeases(db, id, [{ messageId: 'message', dueAtMs: nowMs, failed: true }], nowMs),
  recordResults: (db) =>
    recordResults(db, [
      { ...result, state: 'delivered' },
      { ...result, messageId: 'other', state: 'pending' },
    ]),
  unparkNext: (db) => unparkNext(db, id, ['K']),
  unparkAll: (db) => unparkAll(db, id, ['K']),
  insertAttempts: (db) =>
    insertAttempts(db, id, [
      {
        messageId: 'message',
        attempt: 1,
        createdAtMs: nowMs,
        durationMs: 1,
        status: 200,
        error: null,
        answer: null,
      },
    ]),
  listAttempts: (db) => listAttempts(db, id, { sinceMs: nowMs - 86_400_000, untilMs: nowMs, limit: 10 }),
  findEndpointsToBackfill: (db) => findEndpointsToBackfill(db, bounds),
  backfillQueue: async (db) => {
    const values = ['tenant', 'endpoint', new Date(nowMs - 1000), 'waits', 1, new Date(nowMs - 1000)];
    await pool.query(
      `insert into webhook_deliveries (tenant_id, endpoint_id, created_at, message_id, seq, state, due_at)
       values ($1, $2, $3, $4, $5, 'pending', $6)`,
      values,
    );
    expect(await backfillQueue(db, id, { ...bounds, nowMs, limit: 10 })).toEqual({ moved: 1, left: false });
  },
  findQueuedWeeks: (db) => findQueuedWeeks(db, id),
  readQueued: async (db) => {
    await pool.query(
      `insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, due_at)
       values ('tenant', 'endpoint', 'listed', $1, 1, $1)`,
      [new Date(nowMs)],
    );
    expect((await readQueued(db, { ...list, filter: {} })).deliveries).not.toEqual([]);
  },
  'readEnded between times': (db) =>
    readEnded(db, { ...list, filter: { fromMs: nowMs - WEEK_MS, toMs: nowMs } }),
  readDelivery: (db) => readDelivery(db, 'tenant', { ...id, ...delivery }, nowMs),
  findMessagesOfRecord: async (db) => {
    await pool.query(
      `insert into event_keys (tenant_id, kind, key, status, generation, partition, "offset", accepted_at, stored_at,
                               updated_at, expires_at)
       values ('tenant', 'credentials', 'record', 'stored', 1, 0, 1, $1, $1, $1, $1)`,
      [new Date(nowMs)],
    );
    await findMessagesOfRecord(db, 'tenant', 'record');
  },
  findOfMessages: (db) =>
    findOfMessages(db, { tenantId: 'tenant', endpointIds: ['endpoint'], messages: [delivery], nowMs }),
  requeueDeliveries: (db) =>
    requeueDeliveries(db, { ...id, messages: [delivery], states: ['failed'], nowMs }),
  countRecoverable: (db) => countRecoverable(db, recovery),
  examineDeliveries: (db) => examineDeliveries(db, recovery),
  readMessages: async (db) => {
    const select = {
      query: async (text: string, values?: unknown[]) =>
        text.startsWith('declare')
          ? await db.query(text.slice(text.indexOf('select')), values)
          : { rows: [], rowCount: 0 },
    };
    for await (const _ of readMessages(select as Queryable, day));
  },
  addEarlierIds: (db) => addEarlierIds(db, day),
  readAutomationCounts: (db) =>
    readAutomationCounts(db, { tenantId: 'tenant', bounds: [nowMs - 86_400_000, nowMs] }, 'lobId', 1),
};

test.each(Object.keys(OPERATIONS))('the plan of %s reads only the weeks that it needs', async (name) => {
  const { db, statements } = recording();
  await OPERATIONS[name]!(db);
  expect(statements.length).toBeGreaterThan(0);
  for (const statement of statements) {
    expect([statement.text, await plannedPartitions(statement)]).toEqual([
      statement.text,
      expect.toSatisfy(isFew),
    ]);
  }
});

const isFew = (partitions: number) => partitions <= FEW;

test('the plan of a page of the audit reads only its weeks, and continues to earlier ones', async () => {
  const read = { tenantId: 'tenant', apiKeyId: 'k', requestId: 'r', conversationId: 'C', eventId: null };
  const times = [40, 1, 0].map((weeks) => nowMs - weeks * WEEK_MS);
  for (const [i, readAtMs] of times.entries()) {
    await insertCredentialRead(pool, { ...read, readId: String(i), readAtMs, outcome: 'missing' });
  }
  const near = recording();
  expect(
    (await listCredentialReads(near.db, { tenantIds: ['tenant'], limit: 1 })).map(({ readId }) => readId),
  ).toEqual(['2']);
  const planned = await Promise.all(near.statements.map(plannedPartitions));
  expect(Math.max(...planned)).toBeLessThanOrEqual(FEW);
  // Read in pages, and in one page that needs all weeks.
  const all = await listCredentialReads(pool, { tenantIds: ['tenant'], limit: 10 });
  expect(all.map(({ readId }) => readId)).toEqual(['2', '1', '0']);
  const before = { readAtMs: times[1]!, readId: '1' };
  const rest = await listCredentialReads(pool, { tenantIds: ['tenant'], before, limit: 10 });
  expect(rest.map(({ readId }) => readId)).toEqual(['0']);
});

/** Files with statements on tables partitioned by time, and the tested functions. */
const FILES: Record<string, string> = {
  'workers/sql/webhook-events.ts': 'insertWebhookEvents',
  'shared/postgres/credential-reads.ts': 'the page of the audit',
  'workers/webhooks/sql/backfill-queue.ts': 'backfillQueue, findEndpointsToBackfill',
  'workers/webhooks/sql/history.ts': 'finishDeliveries, dropWaiting',
  'workers/webhooks/sql/results.ts': 'recordResults',
  'shared/postgres/webhook-attempts.ts': 'insertAttempts',
  'workers/webhooks/sql/queue.ts': 'leaseDeliveries',
  'cli/sql/webhooks.ts': 'listAttempts',
  // Without a range of times, a page can have rows of every week. So can the attempts of a delivery.
  'shared/postgres/deliveries/delivery-stream.ts': 'readQueued, readEnded between times',
  'shared/postgres/deliveries/find-delivery.ts': 'readDelivery',
  'shared/postgres/deliveries/record-deliveries.ts': 'findMessagesOfRecord, findOfMessages',
  'shared/postgres/deliveries/requeue.ts': 'requeueDeliveries',
  'workers/webhooks/sql/recoveries.ts': 'countRecoverable, examineDeliveries',
  'cli/sql/message-recount.ts': 'readMessages, addEarlierIds',
  'shared/postgres/automation-counts.ts': 'readAutomationCounts',
  // Only inserts, which the inserted rows route.
  'workers/sql/message-sent.ts': 'none',
  // Names the tables of agents and conversations. Statements insert, or read the history of an entity, which needs every week.
  'shared/postgres/entity-tables.ts': 'none',
  'workers/sql/automation-events.ts': 'none',
  // Names the tables of exports. A page can have rows of every week.
  'shared/postgres/export-kinds.ts': 'none',
  // An erasure has to look into every week.
  'cli/sql/erase-credentials.ts': 'none',
  'cli/sql/erase-entities.ts': 'none',
  'cli/sql/erase-repeat.ts': 'none',
  'cli/sql/erase-scope.ts': 'none',
  'cli/sql/erase-webhooks.ts': 'none',
};

test('every statement on a table partitioned by time has its plan tested', () => {
  const table = new RegExp(
    `(from|into|update|join)\\s+(${TIME_PARTITIONED_TABLES.join('|')})\\b|['"](${TIME_PARTITIONED_TABLES.join('|')})['"]`,
  );
  const found = ['shared', 'workers', 'gateway', 'admin', 'cli', 'embedded']
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true }).map((file) => join(folder, String(file))),
    )
    .filter((file) => file.endsWith('.ts') && table.test(readFileSync(join(ROOT, file), 'utf8')));
  const others = new Set(NO_STATEMENTS);
  expect(found.filter((file) => !others.has(file)).sort()).toEqual(Object.keys(FILES).sort());
});

/** Files that name these tables only to create or list partitions, or name a view of that name. */
const NO_STATEMENTS = [
  'cli/distribute/tables.ts',
  'cli/erase/remove.ts',
  'shared/postgres/deliveries/recoveries.ts',
  'shared/postgres/retention/expired-weeks.ts',
  'shared/postgres/retention/run-retention.ts',
  'shared/postgres/time-partitions.ts',
  'workers/consume/retry-until-stored.ts',
  'workers/kinds/agent-metadata.ts',
  'workers/kinds/automation-events.ts',
  'workers/kinds/conversation-metadata.ts',
  'workers/kinds/message-sent.ts',
  'workers/webhooks/start.ts',
  'cli/commands/webhooks-test.ts',
  'cli/rollups/rebuild.ts',
  'cli/sql/readers.ts',
];
