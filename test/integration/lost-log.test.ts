import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import { topicOf } from '../../shared/contracts/kinds.ts';
import { createHealth, type Health } from '../../shared/http/health.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { recordKey } from '../../shared/log/partition.ts';
import { EXPORTED_KINDS } from '../../shared/postgres/export-kinds.ts';
import { readExportPage } from '../../shared/postgres/export-page.ts';
import { type ExportPositions, readExportEnd } from '../../shared/postgres/export-positions.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { startWorkers, type Workers } from '../../workers/start.ts';
import { runSluice } from '../support/command.ts';
import { writeDataDir } from '../support/data-dir.ts';
import { createKafkaAdmin } from '../support/kafka-admin.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';

const TENANT = 'tenant';
const KIND = 'agent-metadata';
const logger = pino({ level: 'silent' });
const brokers = inject('kafkaBrokers').split(',').filter(Boolean);

/** A log that a test can delete. */
interface LosableLog {
  readonly log: EventLog;
  /** Settings with which `sluice` can inspect the log. */
  readonly env: Record<string, string>;
  deleteTopics(): Promise<void>;
  close(): Promise<void>;
}

async function openKafka({ url }: TestDatabase, prefix: string): Promise<LosableLog> {
  const admin = await createKafkaAdmin(brokers);
  const consumerTimes = { sessionTimeoutMs: 6000, heartbeatIntervalMs: 500, fetchWaitMs: 100 };
  const log = createKafkaLog({ brokers, clientId: 'sluice-test', logger, consumerTimes });
  return {
    log,
    env: { DATABASE_URL: url, KAFKA_BROKERS: brokers.join(','), SLUICE_TOPIC_PREFIX: prefix },
    async deleteTopics() {
      await admin.deleteTopics(prefix);
      const topics = topicSpecs(prefix, { partitions: 1, replicas: 1 }).map(({ topic }) => topic);
      await waitFor(async () => (await log.partitionCounts(topics)).size === 0, {
        timeoutMs: 20_000,
        what: 'the topics to be gone',
      });
    },
    async close() {
      await log.close();
      await admin.deleteTopics(prefix);
      await admin.close();
    },
  };
}

async function openEmbedded({ pool, url }: TestDatabase, prefix: string): Promise<LosableLog> {
  const log = createEmbeddedLog({ pool, clock: systemClock, logger });
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-lost-'));
  await writeDataDir(dataDir, url);
  return {
    log,
    env: { SLUICE_DATA_DIR: dataDir, SLUICE_TOPIC_PREFIX: prefix },
    async deleteTopics() {
      await pool.query('delete from log_records');
      await pool.query('delete from log_partitions');
    },
    async close() {
      await log.close();
      await rm(dataDir, { recursive: true });
    },
  };
}

const LOGS = [
  { name: 'embedded', open: openEmbedded },
  ...(brokers.length > 0 ? [{ name: 'Kafka', open: openKafka }] : []),
];

describe.each(LOGS)('a lost log: $name', ({ open }) => {
  let database: TestDatabase;
  let losable: LosableLog;
  let prefix: string;
  let workers: Workers | undefined;
  let health: Health;

  beforeEach(async () => {
    database = await copyTemplate();
    prefix = `test-${randomBytes(6).toString('hex')}.`;
    losable = await open(database, prefix);
    await createTopics();
    const tenantPartitions = 1;
    await registerTopics(database.pool, specs(), { tenantPartitions, clock: systemClock });
  });
  afterEach(async () => {
    await workers?.close();
    workers = undefined;
    await losable?.close();
    await database?.drop();
  });

  const specs = () => topicSpecs(prefix, { partitions: 2, replicas: 1 });
  const topic = () => topicOf(prefix, KIND);

  async function createTopics(): Promise<void> {
    expect(await losable.log.createTopics(specs())).toHaveLength(5);
  }

  function start(): void {
    health = createHealth();
    workers = startWorkers({
      ...{ pool: database.pool, log: losable.log, clock: systemClock, logger, health, prefix },
      nextId: createUlidGenerator(systemClock),
      kinds: [KIND],
      credentialsTtlMs: 86_400_000,
      topicRetentionMs: 7 * 86_400_000,
    });
  }

  async function publish(...ids: string[]): Promise<void> {
    const publisher = losable.log.createPublisher({ deadlineMs: 15_000, bufferedBytesMax: 1e6 });
    const outcomes = await publisher.publish(
      topic(),
      ids.map((id) => ({
        partition: 0,
        key: recordKey(TENANT, 'agent'),
        headers: EVENT_HEADERS,
        value: encodeEvent({
          ...{ kind: KIND, tenantId: TENANT, id, idGenerated: false, entity: 'agent', requestId: 'r' },
          acceptedAtMs: systemClock.nowMs(),
          contentHash: Buffer.from(id).toString('hex').padStart(64, '0'),
          data: { externalAgentId: 'agent', lobId: id },
        }),
      })),
    );
    await publisher.close();
    expect(outcomes.every(({ ok }) => ok)).toBe(true);
  }

  async function stored(): Promise<string[]> {
    const { rows } = await database.pool.query<{ event_id: string }>(
      'select event_id from agent_records order by generation, "offset"',
    );
    return rows.map(({ event_id }) => event_id);
  }

  const untilStored = (...ids: string[]) =>
    waitFor(async () => (await stored()).join() === ids.join(), {
      timeoutMs: 25_000,
      what: `${ids.join()} to be stored`,
    });

  /** Exports what was stored since the positions. */
  async function exportFrom(from: ExportPositions): Promise<{ ids: string[]; next: ExportPositions }> {
    const end = await readExportEnd(database.pool, topic());
    const query = { tenantId: TENANT, from, end, limit: 100 };
    const { rows, next } = await readExportPage(database.pool, EXPORTED_KINDS['agent-history'], query);
    return { ids: rows.map((row) => JSON.parse(row).event_id), next };
  }

  const untilReady = () =>
    waitFor(() => health.readyReasons().length === 0, { timeoutMs: 25_000, what: 'the reason to disappear' });

  const untilReason = (reason: string) =>
    waitFor(() => health.readyReasons().some((found) => found.includes(reason)), {
      timeoutMs: 20_000,
      what: reason,
    });

  async function accept(options: string) {
    const { code, stdout, stderr } = await runSluice(`topics accept ${options} --json`, losable.env);
    const parsed = JSON.parse(stdout);
    const found = parsed.topics.find((plan: { topic: string }) => plan.topic === topic());
    return { code, stderr, accepted: parsed.accepted, found };
  }

  it('recreated under an idle worker: the worker reports it, skips nothing, and continues after topics accept', async () => {
    start();
    await publish('a', 'b', 'c');
    await untilStored('a', 'b', 'c');
    await untilReady();
    const exported = await exportFrom(new Map());
    expect(exported.ids).toEqual(['a', 'b', 'c']);
    await losable.deleteTopics();
    await createTopics();
    await untilReason('the log ends at 0, but records up to 3 were stored');
    await publish('d', 'e', 'f', 'g');
    await untilReason('record 2 differs from the stored record: this is another log');
    expect(await stored()).toEqual(['a', 'b', 'c']);
    expect(health.liveReasons()).toEqual([]);

    const looked = await accept('--dry-run');
    expect(looked).toMatchObject({ code: 0, accepted: false, found: { generation: 2, change: true } });
    const unconfirmed = await accept('');
    expect(unconfirmed).toMatchObject({ code: 1, accepted: false, found: looked.found });
    expect(unconfirmed.stderr).toContain('nothing was changed');
    expect(await accept('--yes')).toMatchObject({
      code: 0,
      accepted: true,
      found: {
        generationBefore: 1,
        generation: 2,
        partitions: [
          { partition: 0, finding: 'other-record', stored: '3', goesOnAt: '0', skipped: '0' },
          { partition: 1, finding: 'fits', stored: '0', goesOnAt: '0' },
        ],
      },
    });
    await untilStored('a', 'b', 'c', 'd', 'e', 'f', 'g');
    expect((await exportFrom(exported.next)).ids).toEqual(['d', 'e', 'f', 'g']);
    await untilReady();
    expect(await accept('')).toMatchObject({ code: 0, accepted: false, found: { change: false } });
  }, 120_000);

  it('is reported by topics accept with the number of records that are not stored', async () => {
    start();
    await publish('a');
    await untilStored('a');
    expect((await runSluice('lag', losable.env)).stdout).toContain('Everything is stored.');
    const { partitions } = JSON.parse(
      (await runSluice('lag --kind agent-metadata --partitions --json', losable.env)).stdout,
    );
    const held =
      'KAFKA_BROKERS' in losable.env ? expect.stringMatching(/^sluice-test-\S+ at \S+$/) : undefined;
    expect(partitions.map((one: { member?: string }) => one.member)).toEqual(partitions.map(() => held));
    await losable.deleteTopics();
    await losable.log.createTopics(specs().filter((spec) => spec.topic !== topic()));
    const { code, stdout, stderr } = await runSluice('lag', losable.env);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(`there is no topic ${topic()}: it was deleted`);
  }, 60_000);

  it('recreated under a stopped worker: the worker stops at its start, and continues after topics accept', async () => {
    start();
    await publish('a', 'b');
    await untilStored('a', 'b');
    await workers!.close();
    await losable.deleteTopics();
    await createTopics();
    await publish('c', 'd', 'e');
    start();
    await untilReason('record 1 differs from the stored record: this is another log');
    expect(await stored()).toEqual(['a', 'b']);
    expect((await accept('--topic agent-metadata --yes')).code).toBe(0);
    await untilStored('a', 'b', 'c', 'd', 'e');
    await untilReady();
  }, 120_000);

  it('is read again from the position of a database restored under an idle worker', async () => {
    start();
    await publish('a', 'b');
    await untilStored('a', 'b');
    const before = await database.pool.query(
      'select next_offset, last_id from log_positions where topic = $1 and partition = 0',
      [topic()],
    );
    await publish('c', 'd');
    await untilStored('a', 'b', 'c', 'd');
    const { next_offset, last_id } = before.rows[0];
    // Restores the state before the last two records in a single statement.
    await database.pool.query(
      `with records as (delete from agent_records where event_id in ('c', 'd')),
            keys as (delete from event_keys where key in ('c', 'd'))
       update log_positions set next_offset = $2, last_id = $3 where topic = $1 and partition = 0`,
      [topic(), next_offset, last_id],
    );
    await untilStored('a', 'b', 'c', 'd');
    await untilReady();
  }, 90_000);

  it('gets positions for partitions that were never read, so that none starts in the previous generation', async () => {
    await database.pool.query(
      `insert into log_positions (topic, partition, generation, next_offset, last_id, updated_at)
       values ($1, 0, 1, 1, null, '2026-01-01T00:00:00Z')`,
      [topic()],
    );
    expect(await accept('--yes')).toMatchObject({
      accepted: true,
      found: { partitions: [{ finding: 'ends-below', goesOnAt: '0' }, { finding: 'fits' }] },
    });
    const { rows } = await database.pool.query(
      'select partition, generation, next_offset from log_positions order by partition',
    );
    expect(rows).toEqual([
      { partition: 0, generation: 2, next_offset: 0n },
      { partition: 1, generation: 2, next_offset: 0n },
    ]);
  });

  it('with another number of partitions is not accepted', async () => {
    await database.pool.query('update log_topics set partitions = 3');
    const { code, stdout, stderr } = await runSluice('topics accept --yes', losable.env);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('is registered with 3 partitions, but the log has 2');
    expect(stderr).toContain('topics create --partitions 3');
  });
});
