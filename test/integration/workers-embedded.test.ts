import { pino } from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import { topicOf } from '../../shared/contracts/kinds.ts';
import { createHealth } from '../../shared/http/health.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import type { EventLog, OutgoingRecord } from '../../shared/log/log.ts';
import { partitionOf, recordKey } from '../../shared/log/partition.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { startWorkers, type Workers } from '../../workers/start.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';

const PREFIX = 'sluice.';
const TENANT = 'tenant';
const LAYOUT = { partitions: 4, tenantPartitions: 4 };
const TOPIC = topicOf(PREFIX, 'message-sent');
const logger = pino({ level: 'silent' });

let database: TestDatabase;
const logs: EventLog[] = [];
const running: Workers[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  const log = openLog();
  const specs = topicSpecs(PREFIX, { partitions: LAYOUT.partitions, replicas: 1 });
  await log.createTopics(specs);
  await registerTopics(database.pool, specs, {
    tenantPartitions: LAYOUT.tenantPartitions,
    clock: systemClock,
  });
});

afterAll(async () => {
  await Promise.all(running.map((workers) => workers.close()));
  await Promise.all(logs.map((log) => log.close()));
});

function openLog(): EventLog {
  const log = createEmbeddedLog({ pool: database.pool, clock: systemClock, logger });
  logs.push(log);
  return log;
}

function start() {
  const health = createHealth();
  const workers = startWorkers({
    pool: database.pool,
    log: openLog(),
    clock: systemClock,
    nextId: createUlidGenerator(systemClock),
    logger,
    health,
    prefix: PREFIX,
    credentialsTtlMs: 86_400_000,
    topicRetentionMs: 7 * 86_400_000,
    batchRecordsMax: 100,
    transactionsMax: 2,
  });
  running.push(workers);
  return { workers, health };
}

function message(id: string, text = ''): OutgoingRecord {
  const key = recordKey(TENANT, id);
  return {
    partition: partitionOf(TENANT, key, LAYOUT),
    key,
    headers: EVENT_HEADERS,
    value: encodeEvent({
      kind: 'message-sent',
      tenantId: TENANT,
      id,
      idGenerated: false,
      entity: id,
      acceptedAtMs: systemClock.nowMs(),
      requestId: 'r',
      contentHash: '00'.repeat(32),
      data: { messageId: id, augmentationType: ['FREEHAND'], selectedSuggestionText: text },
    }),
  };
}

it('two processes that read the same partitions store every record once while one is restarted', async () => {
  const publisher = openLog().createPublisher({ deadlineMs: 20_000, bufferedBytesMax: 1e8 });
  const publish = async (from: number, to: number) => {
    const records = Array.from({ length: to - from }, (_, i) =>
      message(`m${from + i}`, (from + i) % 500 === 250 ? 'nul \u0000' : 'text'),
    );
    const outcomes = await publisher.publish(TOPIC, records);
    expect(outcomes.every(({ ok }) => ok)).toBe(true);
  };
  const storedCount = async () =>
    (await database.pool.query<{ n: number }>('select count(*)::int as n from message_sent')).rows[0]!.n;

  const first = start();
  await publish(0, 2000);
  const second = start();
  await waitFor(() => second.workers.status()[3]!.consumer.partitions.length > 0, {
    timeoutMs: 15_000,
    what: 'the second process to read',
  });
  await publish(2000, 4000);
  await first.workers.close();
  await publish(4000, 5000);
  await waitFor(async () => (await storedCount()) >= 4990, { timeoutMs: 20_000, what: '4990 rows' });
  await waitFor(() => second.workers.status()[3]!.consumer.lag === 0n, { timeoutMs: 20_000, what: 'no lag' });
  const { rows } = await database.pool.query(
    'select count(*)::int as rows, count(distinct message_id)::int as messages from message_sent',
  );
  expect(rows).toEqual([{ rows: 4990, messages: 4990 }]);
  const { rows: keys } = await database.pool.query(
    'select status, count(*)::int as n, sum(conflicts)::int as conflicts from event_keys group by 1 order by 1',
  );
  expect(keys).toEqual([
    { status: 'dead-lettered', n: 10, conflicts: 0 },
    { status: 'stored', n: 4990, conflicts: 0 },
  ]);
  const { rows: dead } = await database.pool.query('select count(*)::int as n from dead_letters');
  expect(dead).toEqual([{ n: 10 }]);
  expect(second.health.readyReasons()).toEqual([]);
  expect(second.health.liveReasons()).toEqual([]);
  await publisher.close();
}, 90_000);
