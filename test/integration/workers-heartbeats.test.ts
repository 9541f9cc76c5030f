import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { EventLog, OutgoingRecord } from '../../shared/log/log.ts';
import { recordKey } from '../../shared/log/partition.ts';
import type { EncodedRow } from '../../shared/postgres/encoded-rows.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { timePartitionName } from '../../shared/postgres/time-partitions.ts';
import { startConsuming } from '../../workers/consume/consume.ts';
import { createTransactionSlots } from '../../workers/consume/transaction-slots.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { automationEvents } from '../../workers/kinds/automation-events.ts';
import type { RecordKind } from '../../workers/kinds/record-kind.ts';
import { createPartitionsAhead } from '../../workers/maintenance.ts';
import { createKafkaAdmin } from '../support/kafka-admin.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';

const DAY_MS = 86_400_000;
const PARTITIONS = 2;
/** Kafka's default minimum session timeout. */
const SESSION_TIMEOUT_MS = 6_000;
const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
const brokers = inject('kafkaBrokers').split(',').filter(Boolean);

describe('a worker on the embedded log', () => testWorker(openEmbeddedLog, { hasGroups: false }));
// Names the suite in the report of a run without a broker; SLUICE_TEST_REQUIRE_KAFKA fails such a run.
if (brokers.length === 0) describe.skip('a worker on Kafka (no broker)');
else describe('a worker on Kafka', () => testWorker(openKafkaLog, { hasGroups: true }));

/** Tests of membership apply only to a log with consumer groups. */
function testWorker(openLog: OpenLog, { hasGroups }: { readonly hasGroups: boolean }): void {
  const bench = new HeartbeatBench();
  beforeAll(() => bench.open(openLog), 60_000);
  afterAll(() => bench.close());
  testBatches(bench);
  if (hasGroups) testMembership(bench);
}

function testBatches(bench: HeartbeatBench): void {
  it('bisects a batch that the server ends and stores it once, if another partition commits', async () => {
    const ids = numbered('h', 100);
    await bench.pool.query(`insert into slowness values ('ended', 20, null)`);
    await bench.publish(
      'agent-metadata',
      ids.map((id) => agentRecord('ended', id)),
    );
    const { worker, starts } = bench.start(agentMetadata);
    let others = 0;
    await waitFor(
      async () => {
        await bench.publish('agent-metadata', [agentRecord('beside', `o-${others++}`, 1)]);
        return (await bench.storedAgents('ended')).length >= ids.length;
      },
      { timeoutMs: 40_000, what: 'all records of the batch' },
    );
    expect(await bench.storedAgents('ended')).toEqual(ids);
    await waitFor(async () => (await bench.storedAgents('beside')).length === others, {
      timeoutMs: 20_000,
      what: 'the records of the other partition',
    });
    expect(worker.status().reasons).toEqual([]);
    expectMember(starts);
  }, 90_000);

  it('stores a record within seconds while events of another tenant cause many deliveries', async () => {
    const endpoints = 12;
    const events = 1000;
    await bench.pool.query(
      `insert into tenants (tenant_id, name, created_at) values ('many', 'many', now()), ('other', 'other', now())`,
    );
    await bench.pool.query(
      `insert into webhook_endpoints
         (tenant_id, endpoint_id, url, state, secret_key_id, secret_ciphertext, created_at, updated_at)
       select 'many', 'e' || n, 'https://example.org/', 'enabled', 'k', '\\x00', now(), now()
       from generate_series(1, $1::int) n`,
      [endpoints],
    );
    await bench.pool.query(`
      create table deliveries_at_once (n int);
      create function count_deliveries() returns trigger language plpgsql as $$
      begin
        insert into deliveries_at_once select count(*) from inserted;
        return null;
      end $$;
      create trigger count_deliveries after insert on webhook_queue
        referencing new table as inserted for each statement execute function count_deliveries();
    `);
    for (let request = 0; request < 3; request++) {
      await bench.publish(
        'automation-events',
        numbered(`r${request}`, events).map((id) => eventRecord('many', id)),
      );
    }
    await bench.publish('automation-events', [eventRecord('other', 'last')]);
    const { starts } = bench.start(automationEvents);
    await waitFor(() => starts.length === PARTITIONS, { timeoutMs: 30_000, what: 'the partitions' });
    const stored = async (tenantId: string) =>
      (await bench.pool.query('select from automation_events where tenant_id = $1', [tenantId])).rowCount;
    await waitFor(async () => (await stored('other')) === 1, {
      timeoutMs: 90_000,
      what: "the other tenant's record",
    });
    expect(await stored('many')).toBe(3 * events);
    const { rows } = await bench.pool.query<{ most: number; all: number }>(
      'select max(n)::int as most, sum(n)::int as all from deliveries_at_once',
    );
    expect(rows[0]!.all).toBe(3 * events * endpoints);
    expect(rows[0]!.most).toBeLessThanOrEqual(10_000);
    expectMember(starts);
  }, 120_000);
}

function testMembership(bench: HeartbeatBench): void {
  it('stays a member of its group while the database takes longer for a batch than a session lasts', async () => {
    const ids = numbered('s', 5);
    const sleepS = (SESSION_TIMEOUT_MS * 1.4) / 1000;
    await bench.pool.query(`insert into slowness values ('slow', null, $1)`, [sleepS]);
    const { starts } = bench.start(agentMetadata);
    await waitFor(() => starts.length === PARTITIONS, { timeoutMs: 30_000, what: 'the partitions' });
    await bench.publish(
      'agent-metadata',
      ids.map((id) => agentRecord('slow', id)),
    );
    await waitFor(async () => (await bench.storedAgents('slow')).length >= ids.length, {
      timeoutMs: 40_000,
      what: 'all records of the batch',
    });
    expect(await bench.storedAgents('slow')).toEqual(ids);
    expectMember(starts);
  }, 90_000);

  it('stays a member of its group while decoding a batch, twice, takes longer than a session lasts', async () => {
    const ids = numbered('d', 100);
    const busyMs = (SESSION_TIMEOUT_MS * 1.25) / ids.length;
    const heavy: RecordKind<EncodedRow> = {
      ...agentMetadata,
      scanner: undefined,
      read(event) {
        if (event.tenantId === 'heavy') keepBusy(busyMs);
        return agentMetadata.read(event);
      },
    };
    // Without the time partition, the worker reads all records again to find the missing
    // partitions.
    const partition = timePartitionName('agent_records', systemClock.nowMs());
    await bench.pool.query(`alter table agent_records detach partition ${partition}`);
    await bench.pool.query(`alter table ${partition} rename to detached`);
    const { starts } = bench.start(heavy);
    await waitFor(() => starts.length === PARTITIONS, { timeoutMs: 30_000, what: 'the partitions' });
    await bench.publish(
      'agent-metadata',
      ids.map((id) => agentRecord('heavy', id)),
    );
    await waitFor(async () => (await bench.storedAgents('heavy')).length >= ids.length, {
      timeoutMs: 80_000,
      what: 'all records of the batch',
    });
    expect(await bench.storedAgents('heavy')).toEqual(ids);
    expectMember(starts);
  }, 120_000);
}

interface LogUnderTest {
  readonly log: EventLog;
  close(): Promise<void>;
}

type OpenLog = (database: TestDatabase, prefix: string) => Promise<LogUnderTest>;

async function openEmbeddedLog({ pool }: TestDatabase): Promise<LogUnderTest> {
  const log = createEmbeddedLog({ pool, clock: systemClock, logger });
  return { log, close: () => log.close() };
}

async function openKafkaLog(_: TestDatabase, prefix: string): Promise<LogUnderTest> {
  const consumerTimes = { sessionTimeoutMs: SESSION_TIMEOUT_MS, heartbeatIntervalMs: 600, fetchWaitMs: 100 };
  const log = createKafkaLog({ brokers, clientId: 'sluice-test', consumerTimes, logger });
  return {
    log,
    async close() {
      await log.close();
      const admin = await createKafkaAdmin(brokers);
      await admin.deleteTopics(prefix);
      await admin.close();
    },
  };
}

/** Workers on a log. The table `slowness` disturbs how the agents of a tenant are stored. */
class HeartbeatBench {
  readonly #prefix = `sluice-test-${randomBytes(6).toString('hex')}.`;
  #log!: LogUnderTest;
  pool!: Pool;

  async open(openLog: OpenLog): Promise<void> {
    const database = await createTestDatabase();
    this.pool = database.pool;
    this.#log = await openLog(database, this.#prefix);
    const specs = topicSpecs(this.#prefix, { partitions: PARTITIONS, replicas: 1 });
    await this.#log.log.createTopics(specs);
    await registerTopics(this.pool, specs, { tenantPartitions: PARTITIONS, clock: systemClock });
    await createPartitionsAhead({ pool: this.pool, clock: systemClock });
    await this.pool.query(`
      create table slowness (tenant_id text, rows_max int, sleep_s float);
      create function hinder() returns trigger language plpgsql as $$
      declare how record;
      begin
        select * into how from slowness where tenant_id = (select min(tenant_id) from inserted);
        if how.sleep_s is not null then perform pg_sleep(how.sleep_s); end if;
        if (select count(*) from inserted) > how.rows_max then
          perform pg_terminate_backend(pg_backend_pid());
          perform pg_sleep(5);
        end if;
        return null;
      end $$;
      create trigger hinder after insert on agent_records
        referencing new table as inserted for each statement execute function hinder();
    `);
  }

  async close(): Promise<void> {
    await this.#log?.close();
  }

  /** Publishes the records in one call, in order. */
  async publish(kind: Kind, records: readonly OutgoingRecord[]): Promise<void> {
    const publisher = this.#log.log.createPublisher({ deadlineMs: 20_000, bufferedBytesMax: 1e8 });
    const outcomes = await publisher.publish(topicOf(this.#prefix, kind), records);
    await publisher.close();
    expect(outcomes.every(({ ok }) => ok)).toBe(true);
  }

  /**
   * Starts a worker of the kind, which is stopped after the test. `starts` lists the partitions
   * whose start was requested.
   */
  start<Row>(kind: RecordKind<Row>) {
    const { log } = this.#log;
    const starts: number[] = [];
    const worker = startConsuming(
      {
        pool: this.pool,
        log: {
          createConsumer: (options) =>
            log.createConsumer({
              ...options,
              startOffset(partition, bounds) {
                starts.push(partition);
                return options.startOffset(partition, bounds);
              },
            }),
        },
        prefix: this.#prefix,
        clock: systemClock,
        nextId: createUlidGenerator(systemClock),
        logger,
        slots: createTransactionSlots(4, systemClock),
        batchRecordsMax: 1000,
        recordAgeMaxMs: 90 * DAY_MS,
        topicRetentionMs: 7 * DAY_MS,
        generatedIdKeptMs: 8 * DAY_MS,
      },
      kind,
    );
    onTestFinished(() => worker.close());
    return { worker, starts };
  }

  async storedAgents(tenantId: string): Promise<string[]> {
    const { rows } = await this.pool.query<{ event_id: string }>(
      'select event_id from agent_records where tenant_id = $1 order by generation, partition, "offset"',
      [tenantId],
    );
    return rows.map(({ event_id }) => event_id);
  }
}

/** Checks that the worker never left its group: the start of each partition was requested once. */
function expectMember(starts: readonly number[]): void {
  expect([...starts].sort()).toEqual(Array.from({ length: PARTITIONS }, (_, partition) => partition));
}

function numbered(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${name}-${String(i).padStart(4, '0')}`);
}

/** Blocks the event loop. */
function keepBusy(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

function agentRecord(tenantId: string, id: string, partition = 0): OutgoingRecord {
  return outgoing('agent-metadata', { tenantId, id, entity: id, partition, data: { externalAgentId: id } });
}

function eventRecord(tenantId: string, id: string): OutgoingRecord {
  const occurredAt = new Date(systemClock.nowMs()).toISOString();
  const data = { conversationId: id, externalConversationId: id, type: 'processingStart', occurredAt };
  return outgoing('automation-events', { tenantId, id, entity: id, partition: 0, data });
}

interface Outgoing {
  readonly tenantId: string;
  readonly id: string;
  readonly entity: string;
  readonly partition: number;
  readonly data: JsonObject;
}

function outgoing(kind: Kind, { tenantId, id, entity, partition, data }: Outgoing): OutgoingRecord {
  return {
    partition,
    key: recordKey(tenantId, entity),
    headers: EVENT_HEADERS,
    value: encodeEvent({
      kind,
      tenantId,
      id,
      idGenerated: false,
      entity,
      acceptedAtMs: systemClock.nowMs(),
      requestId: 'r',
      contentHash: '00'.repeat(32),
      data,
    }),
  };
}
