import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, inject } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import { deadLetterTopicOf, topicOf } from '../../shared/contracts/kinds.ts';
import { createHealth } from '../../shared/http/health.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { EventLog, OutgoingRecord, Publisher } from '../../shared/log/log.ts';
import { partitionOf, recordKey } from '../../shared/log/partition.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { startWorkers, type Workers } from '../../workers/start.ts';
import { runSluice } from './command.ts';
import { writeDataDir } from './data-dir.ts';
import { createKafkaAdmin } from './kafka-admin.ts';
import { createTestDatabase, type TestDatabase } from './postgres.ts';
import { waitFor } from './wait.ts';
import { createWebhookBench } from './webhooks.ts';

const brokers = inject('kafkaBrokers').split(',').filter(Boolean);
const logger = pino({ level: 'silent' });
export const LAYOUT = { partitions: 3, tenantPartitions: 3 };
const PUBLISHER = { deadlineMs: 15_000, bufferedBytesMax: 1e8 };
const CONSUMER_TIMES = { sessionTimeoutMs: 6000, heartbeatIntervalMs: 500, fetchWaitMs: 100 };

/** A dead letter as `list --json` prints it. */
export interface ListedDeadLetter {
  readonly firstPosition: string;
  readonly id: string | null;
  readonly reason: string;
  readonly failedAt: string;
  readonly state: string;
  readonly settledAt: string | null;
}

/**
 * Declares the tests once for the embedded log and once for Kafka. Each test begins with no dead
 * letter; tests use different agents and ids.
 */
export function describeDeadLetters(subject: string, declare: (bench: DeadLetterBench) => void): void {
  const declareFor = (which: 'embedded' | 'kafka') => {
    const bench = new DeadLetterBench(which);
    beforeAll(() => bench.start(), 60_000);
    beforeEach(() => bench.reset(), 60_000);
    afterAll(() => bench.close());
    declare(bench);
  };
  describe(`${subject} in the embedded log`, () => declareFor('embedded'));
  describe.skipIf(brokers.length === 0)(`${subject} in Kafka`, () => declareFor('kafka'));
}

/** Workers for agents, the command, and two tenants. */
export class DeadLetterBench {
  readonly prefix = `letters-${randomBytes(6).toString('hex')}.`;
  readonly topic = topicOf(this.prefix, 'agent-metadata');
  /** The topic of the previous release's dead letters. */
  readonly deadLetterTopic = deadLetterTopicOf(this.topic);
  readonly #which: 'embedded' | 'kafka';
  #dataDir!: string;
  #workers: Workers | undefined;
  database!: TestDatabase;
  log!: EventLog;
  publisher!: Publisher;
  /** Settings of the command. */
  env!: Readonly<Record<string, string>>;
  /** Id of the tenant `acme`, which has a webhook endpoint. */
  acme!: string;
  /** Id of the tenant `other`. */
  other!: string;

  constructor(which: 'embedded' | 'kafka') {
    this.#which = which;
  }

  async start(): Promise<void> {
    this.database = await createTestDatabase();
    this.#dataDir = await mkdtemp(join(tmpdir(), 'sluice-letters-'));
    this.env = { SLUICE_TOPIC_PREFIX: this.prefix, ...(await this.#logEnv()) };
    const { pool } = this.database;
    this.log =
      this.#which === 'kafka'
        ? createKafkaLog({ brokers, clientId: 'letters', logger, consumerTimes: CONSUMER_TIMES })
        : createEmbeddedLog({ pool, clock: systemClock, logger });
    await this.log.createTopics(this.#topics());
    await this.registerTopics();
    this.publisher = this.log.createPublisher(PUBLISHER);
    this.acme = (await this.json('tenants create acme')).tenantId;
    this.other = (await this.json('tenants create other')).tenantId;
    await createWebhookBench(pool).endpoint(this.acme, 'https://example.com/');
    this.#workers = startWorkers({
      pool,
      log: this.log,
      clock: systemClock,
      nextId: createUlidGenerator(systemClock),
      logger,
      health: createHealth(),
      prefix: this.prefix,
      kinds: ['agent-metadata'],
      credentialsTtlMs: 86_400_000,
      topicRetentionMs: 7 * 86_400_000,
      transactionsMax: 2,
    });
  }

  async #logEnv(): Promise<Record<string, string>> {
    const { url } = this.database;
    if (this.#which === 'kafka') return { DATABASE_URL: url, KAFKA_BROKERS: brokers.join() };
    await writeDataDir(this.#dataDir, url);
    return { SLUICE_DATA_DIR: this.#dataDir };
  }

  #topics() {
    return topicSpecs(this.prefix, { ...LAYOUT, replicas: 1 });
  }

  async registerTopics(): Promise<void> {
    await registerTopics(this.database.pool, this.#topics(), { ...LAYOUT, clock: systemClock });
  }

  /** Removes what an earlier test left: records to store, the constraint, and dead letters. */
  async reset(): Promise<void> {
    await this.acceptBad();
    await this.allStored();
    await this.database.pool.query('delete from dead_letters');
  }

  async close(): Promise<void> {
    await this.#workers?.close();
    await this.publisher?.close();
    await this.log?.close();
    await rm(this.#dataDir, { recursive: true, force: true });
    if (this.#which !== 'kafka') return;
    const admin = await createKafkaAdmin(brokers);
    await admin.deleteTopics(this.prefix);
    await admin.close();
  }

  sluice(args: string) {
    return runSluice(args, this.env);
  }

  /** Resolves with the output of a command that succeeds. */
  // biome-ignore lint/suspicious/noExplicitAny: each command prints other JSON
  async json(args: string): Promise<any> {
    const { code, stdout, stderr } = await this.sluice(`${args} --json`);
    expect([args, code, stderr]).toEqual([args, 0, '']);
    return JSON.parse(stdout);
  }

  list(args = ''): Promise<ListedDeadLetter[]> {
    return this.json(`dead-letters list ${args}`);
  }

  /** Resolves with the listed dead letters of a record. */
  async listed(id: string): Promise<ListedDeadLetter[]> {
    return (await this.list()).filter((deadLetter) => deadLetter.id === id);
  }

  async allStored(): Promise<void> {
    await waitFor(async () => (await this.json('lag')).lag === 0, {
      timeoutMs: 30_000,
      what: 'everything to be stored',
    });
  }

  /** Returns a record of an agent. */
  patch(tenantId: string, entity: string, id: string, data: Record<string, string>): OutgoingRecord {
    const key = recordKey(tenantId, entity);
    const content = { externalAgentId: entity, ...data };
    return {
      partition: partitionOf(tenantId, key, LAYOUT),
      key,
      headers: EVENT_HEADERS,
      value: encodeEvent({
        kind: 'agent-metadata',
        tenantId,
        id,
        idGenerated: false,
        entity,
        acceptedAtMs: systemClock.nowMs(),
        requestId: 'r',
        contentHash: createHash('sha256').update(JSON.stringify(content)).digest('hex'),
        data: content,
      }),
    };
  }

  /** Returns a record that the workers refuse while {@link refuseBad} is in force. */
  bad(tenantId: string, entity: string, id: string): OutgoingRecord {
    return this.patch(tenantId, entity, id, { agentName: 'bad' });
  }

  /** Returns a record that no worker can decode. */
  undecodable(): OutgoingRecord {
    return { ...this.patch(this.acme, 'undecodable', 'undecodable', {}), value: Buffer.from('nonsense') };
  }

  async publish(records: readonly OutgoingRecord[], to = this.topic): Promise<bigint[]> {
    const outcomes = await this.publisher.publish(to, records);
    return outcomes.map((outcome) => {
      if (!outcome.ok) throw new Error(`not published: ${outcome.reason}`);
      return outcome.offset;
    });
  }

  /**
   * Adds the constraint to the history, which has every record. A batch merges an agent's records
   * into one current row.
   */
  async refuseBad(): Promise<void> {
    await this.database.pool.query(
      "alter table agent_records add constraint not_bad check (patch ->> 'agentName' <> 'bad') not valid",
    );
  }

  async acceptBad(): Promise<void> {
    await this.database.pool.query('alter table agent_records drop constraint if exists not_bad');
  }

  /** Makes the workers store these records while the table refuses agents named `bad`. */
  async storeWhileRefusing(records: readonly OutgoingRecord[]): Promise<void> {
    await this.refuseBad();
    await this.publish(records);
    await this.allStored();
    await this.acceptBad();
  }

  /** Resolves with the ids of an agent's stored records, in the order of the log. */
  async historyOf(tenantId: string, entity: string): Promise<string[]> {
    const { rows } = await this.database.pool.query<{ event_id: string }>(
      'select event_id from agent_records where tenant_id = $1 and external_agent_id = $2 order by generation, "offset"',
      [tenantId, entity],
    );
    return rows.map(({ event_id }) => event_id);
  }

  async keyOf(id: string) {
    const { rows } = await this.database.pool.query(
      'select status, conflicts from event_keys where key = $1',
      [id],
    );
    return rows;
  }

  async stateOf(id: string) {
    const { rows } = await this.database.pool.query(
      'select state, replay from dead_letters where record_id = $1',
      [id],
    );
    return rows;
  }

  /** Resolves with the ids among these of which the tenant got a webhook, in order. */
  async rejectionsSent(ids: readonly string[]): Promise<string[]> {
    const { rows } = await this.database.pool.query<{ body: Buffer }>(
      "select body from webhook_messages where type = 'ingestion.record_rejected' order by created_at, message_id",
    );
    return rows
      .map(({ body }) => JSON.parse(body.toString()).data.eventId as string)
      .filter((id) => ids.includes(id));
  }
}
