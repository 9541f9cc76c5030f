import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import type { EventLog, OutgoingRecord } from '../../shared/log/log.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { collect } from '../support/collect.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startProxiedPool } from '../support/proxied-pool.ts';
import { waitFor } from '../support/wait.ts';

const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
const database = await createTestDatabase();
const PUBLISHER = { deadlineMs: 10_000, bufferedBytesMax: 8 * 1_048_576 };
const HOUR_MS = 3_600_000;

test('the embedded log retries a statement whose answer is lost, in order, and acknowledges its records', async () => {
  const { pool, proxy, close } = await startProxiedPool(database.url, { max: 3 });
  const log = openLog({ pool });
  await makeTopic(log, 'cut');
  const publisher = log.createPublisher(PUBLISHER);
  onTestFinished(async () => {
    await publisher.close();
    await log.close();
    await close();
  });

  let lost = 0;
  proxy.onAnswer((data) => {
    // The answer names the statement's columns, "range" and "first". When it arrives, the
    // transaction may have been committed.
    if (lost < 3 && data.includes('range\0')) {
      lost += 1;
      proxy.cut();
    }
  });
  const calls = Array.from({ length: 40 }, async (_, call) => {
    if (call >= 20) await waitFor(() => lost > 0, { timeoutMs: 5000, what: 'a lost answer' });
    return publisher.publish('cut', [record(0, `${call}`)]);
  });
  const outcomes = (await Promise.all(calls)).flat();
  expect(lost).toBe(3);
  expect(outcomes.every(({ ok }) => ok)).toBe(true);

  const values = await storedValues('cut');
  const first = values.filter((value, index) => values.indexOf(value) === index);
  expect(first.slice(0, 20)).toEqual(Array.from({ length: 20 }, (_, call) => `${call}`));
  expect(new Set(values).size).toBe(40);
});

test('the embedded log ends an append to a silent server at its deadline when the clock is set back an hour', async () => {
  const { pool, proxy, close } = await startProxiedPool(database.url, { max: 3 });
  let nowMs = Date.now();
  const log = openLog({ pool, clock: { nowMs: () => nowMs } });
  await makeTopic(log, 'silent');
  const publisher = log.createPublisher({ ...PUBLISHER, deadlineMs: 500 });
  onTestFinished(async () => {
    await publisher.close();
    await log.close();
    await close();
  });
  expect(await publisher.publish('silent', [record(0, 'connected')])).toMatchObject([{ ok: true }]);

  proxy.freeze();
  const call = publisher.publish('silent', [record(0, 'unanswered')]);
  nowMs -= HOUR_MS;
  expect(await call).toEqual([{ ok: false, reason: 'timeout', outcomeUnknown: true }]);
  // Closing waits for the append, as later publishes do.
  let closed = false;
  void publisher.close().then(() => {
    closed = true;
  });
  await waitFor(() => closed, { timeoutMs: 5000, what: 'the append to end' });
});

test('the embedded log terminates a session whose answer is lost before the next append when the clock is set back', async () => {
  let nowMs = Date.now() - 3 * HOUR_MS;
  const log = openLog({ clock: { nowMs: () => nowMs } });
  await makeTopic(log, 'locked');
  nowMs = Date.now();
  const publisher = log.createPublisher({ ...PUBLISHER, deadlineMs: 500 });
  expect(await publisher.publish('locked', [record(0, 'connected')])).toMatchObject([{ ok: true }]);
  const lock = await database.pool.connect();
  onTestFinished(async () => {
    await publisher.close();
    await log.close();
    lock.release();
  });
  await lock.query('begin');
  await lock.query(`select from log_partitions where topic = 'locked' for update`);
  const waiting = async () => {
    const { rows } = await database.pool.query<{ pid: number }>(
      `select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
    );
    return rows.map(({ pid }) => pid);
  };
  const first = publisher.publish('locked', [record(0, 'unanswered')]);
  const [lost] = await waitFor(async () => (await waiting()).length > 0 && (await waiting()), {
    timeoutMs: 5000,
    what: 'an append that waits',
  });
  nowMs -= HOUR_MS;
  expect(await first).toEqual([{ ok: false, reason: 'timeout', outcomeUnknown: true }]);
  expect(await publisher.publish('locked', [record(0, 'next')])).toMatchObject([{ ok: false }]);
  expect(await waiting()).not.toContain(lost);
  await lock.query('rollback');
});

test('the embedded log reports why records cannot be read, and resumes once they can', async () => {
  const log = openLog();
  await makeTopic(log, 'unread');
  const publisher = log.createPublisher(PUBLISHER);
  const collector = collect(log, 'unread', 'group');
  onTestFinished(async () => {
    await collector.consumer.close();
    await publisher.close();
    await log.close();
  });
  await publisher.publish('unread', [record(0, 'a')]);
  await waitFor(() => collector.count() === 1, { timeoutMs: 5000, what: 'the first record' });
  // Reads of the headers fail, as they would on a damaged page.
  await database.pool.query('alter table log_records rename column headers to away');
  onTestFinished(async () => {
    await database.pool.query('alter table log_records rename column away to headers').catch(() => undefined);
  });
  await database.pool.query(
    `with p as (update log_partitions set next_offset = next_offset + 1 where topic = 'unread' and partition = 0 returning next_offset - 1 as "offset")
     insert into log_records (topic, partition, "offset", key, value, away, appended_at) select 'unread', 0, "offset", 'k', 'b', '{}', now() from p`,
  );
  await waitFor(() => collector.consumer.status().stopped.get(0), { timeoutMs: 10_000, what: 'a reason' });
  await database.pool.query('alter table log_records rename column away to headers');
  await waitFor(() => collector.count() === 2, { timeoutMs: 10_000, what: 'the second record' });
  expect(collector.consumer.status().stopped.size).toBe(0);
}, 30_000);

test('the embedded log refuses only the records of a partition that does not exist, and reports that none was stored', async () => {
  const log = openLog();
  await makeTopic(log, 'narrow', 1);
  const publisher = log.createPublisher(PUBLISHER);
  const absent = { ok: false, reason: 'unavailable', outcomeUnknown: false };
  expect(await publisher.publish('narrow', [record(0, 'here'), record(7, 'nowhere')])).toEqual([
    { ok: true, partition: 0, offset: 0n },
    absent,
  ]);
  expect(await publisher.publish('no-such-topic', [record(0, 'nowhere')])).toEqual([absent]);
});

test('the embedded log deletes records only if they are older than the retention and handled by every consumer', async () => {
  let nowMs = Date.now() - 2 * HOUR_MS;
  const log = openLog({ clock: { nowMs: () => nowMs }, retentionIntervalMs: 20 });
  await log.createTopics([{ topic: 'kept', partitions: 1, replicas: 1, retentionMs: HOUR_MS }]);
  const publisher = log.createPublisher({ ...PUBLISHER, deadlineMs: HOUR_MS });
  await publisher.publish(
    'kept',
    Array.from({ length: 2500 }, (_, index) => record(0, `old ${index}`)),
  );
  const reader = collect(log, 'kept', 'readers');
  await waitFor(() => reader.count() === 2500, { timeoutMs: 10_000, what: 'the old records' });
  await reader.consumer.close();
  await publisher.publish('kept', [record(0, 'old, not handled')]);
  nowMs += 2 * HOUR_MS;
  await publisher.publish('kept', [record(0, 'new')]);
  await waitFor(async () => (await storedValues('kept')).length <= 2, {
    timeoutMs: 10_000,
    what: 'the deletion',
  });
  expect(await storedValues('kept')).toEqual(['old, not handled', 'new']);
  const again = collect(log, 'kept', 'readers', (_, bounds) => {
    expect(bounds).toEqual({ earliest: 2500n, latest: 2502n });
    return 0n;
  });
  onTestFinished(() => again.consumer.close());
  await waitFor(() => again.count() === 2, { timeoutMs: 10_000, what: 'the remaining records' });
  await waitFor(async () => (await storedValues('kept')).length === 1, {
    timeoutMs: 10_000,
    what: 'the next one',
  });
  expect(await storedValues('kept')).toEqual(['new']);
});

test('the embedded log deletes old records of a topic that no consumer reads', async () => {
  let nowMs = Date.now() - 2 * HOUR_MS;
  const log = openLog({ clock: { nowMs: () => nowMs }, retentionIntervalMs: 20 });
  const topic = 'unread.archive';
  await log.createTopics([{ topic, partitions: 2, replicas: 1, retentionMs: HOUR_MS }]);
  // Retention starts with the first consumer.
  await makeTopic(log, 'read');
  const { consumer } = collect(log, 'read', 'readers');
  onTestFinished(() => consumer.close());
  const publisher = log.createPublisher({ ...PUBLISHER, deadlineMs: HOUR_MS });
  await publisher.publish(topic, [record(0, 'old'), record(1, 'old too')]);
  nowMs += 2 * HOUR_MS;
  await publisher.publish(topic, [record(0, 'new')]);
  await waitFor(async () => (await storedValues(topic)).length === 1, {
    timeoutMs: 10_000,
    what: 'the deletion',
  });
  expect(await storedValues(topic)).toEqual(['new']);
});

function openLog(options: Partial<Parameters<typeof createEmbeddedLog>[0]> = {}): EventLog {
  const log = createEmbeddedLog({
    ...{ pool: database.pool as Pool, clock: systemClock, logger },
    ...options,
  });
  onTestFinished(() => log.close());
  return log;
}

async function makeTopic(log: EventLog, topic: string, partitions = 1): Promise<void> {
  await log.createTopics([{ topic, partitions, replicas: 1, retentionMs: HOUR_MS }]);
}

async function storedValues(topic: string): Promise<string[]> {
  const result = await database.pool.query<{ value: Buffer }>(
    'SELECT value FROM log_records WHERE topic = $1 ORDER BY partition, "offset"',
    [topic],
  );
  return result.rows.map(({ value }) => value.toString());
}

function record(partition: number, value: string): OutgoingRecord {
  return { partition, key: 'key', value: Buffer.from(value) };
}
