import { randomBytes } from 'node:crypto';
import kafkajs from 'kafkajs';
import { pino } from 'pino';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { type Gateway, startGateway } from '../../gateway/start.ts';
import { sleep } from '../../shared/async.ts';
import { systemClock } from '../../shared/clock.ts';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import { topicOf } from '../../shared/contracts/kinds.ts';
import { createHealth } from '../../shared/http/health.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { partitionOf, recordKey } from '../../shared/log/partition.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { startWorkers, type Workers } from '../../workers/start.ts';
import { runSluice } from '../support/command.ts';
import { delayedPool } from '../support/intercepted-pool.ts';
import { copyTemplate } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';

const KIND = 'credentials';
const HOUR_MS = 3_600_000;
const TIMEOUT_MS = 40_000;
const LAYOUTS_DELAY_MS = 500;
const logger = pino({ level: 'silent' });
const brokers = inject('kafkaBrokers').split(',').filter(Boolean);

describe.skipIf(brokers.length === 0)('partitions added to a topic in use', { timeout: 120_000 }, () => {
  it('are not used before they are accepted, and stop nothing', async () => {
    const b = await openTopicInUse();
    const { topic, env } = b;
    await b.addPartitions(topic, 4);
    expect(await b.submit()).toEqual({ partitions: [0, 1], generations: [1] });

    await b.restart();
    await b.untilReady();
    const note = `topics: ${topic} has 4 partitions, registered: 2: the others are not used; see \`./sluice topics accept --partitions\``;
    expect(b.gateway().health.notes()).toEqual([note]);
    expect(await b.submit()).toEqual({ partitions: [0, 1], generations: [1] });
    expect((await runSluice('topics create --replicas 1', env)).code).toBe(0);
    const { stdout } = await runSluice('doctor --json', env);
    expect(JSON.parse(stdout).findings).toContainEqual({
      check: 'topics',
      status: 'ok',
      found: expect.stringContaining(`${topic} with more partitions than registered`),
    });
  });

  it('are read before they are accepted if another producer writes to them', async () => {
    const b = await openTopicInUse();
    const { topic, pool, log, key } = b;
    await b.addPartitions(topic, 4);
    await b.restart();
    await b.untilReady();
    const publisher = log.createPublisher({ deadlineMs: 10_000, bufferedBytesMax: 1e6 });
    const [outcome] = await publisher.publish(topic, [
      {
        partition: 3,
        key: recordKey(key.tenantId, 'FOREIGN'),
        headers: EVENT_HEADERS,
        value: encodeEvent({
          ...{ kind: KIND, tenantId: key.tenantId, id: 'foreign', idGenerated: true, entity: 'FOREIGN' },
          ...{ requestId: 'r', acceptedAtMs: systemClock.nowMs(), contentHash: undefined },
          data: { customerExternalId: 'c', keyId: 'k', ciphertext: 'AAEC/w==' },
        }),
      },
    ]);
    expect(outcome).toMatchObject({ ok: true });
    await publisher.close();
    await waitFor(
      async () => (await pool.query("select from credentials where event_id = 'foreign'")).rowCount === 1,
      { timeoutMs: TIMEOUT_MS, what: 'the record of another producer' },
    );
  });

  it('are used after topics accept', async () => {
    const b = await openTopicInUse();
    const { topic, env, key } = b;
    await b.addPartitions(topic, 4);
    const asked = await runSluice('topics accept', env);
    expect([asked.code, asked.stdout]).toEqual([
      0,
      expect.stringContaining('run the command with --partitions'),
    ]);
    await b.stopGateway();
    const accepted = await waitFor(
      async () => {
        const result = await runSluice('topics accept --partitions --yes --json', env);
        expect(result.stderr).toBe('');
        return JSON.parse(result.stdout);
      },
      { timeoutMs: TIMEOUT_MS, what: 'all partitions to be known' },
    );
    expect(accepted.accepted).toBe(true);
    expect(accepted.topics).toContainEqual(
      expect.objectContaining({ topic, generation: 2, partitionsRegistered: 2, partitionsUsed: 4 }),
    );

    await b.restart();
    await b.untilReady();
    expect(b.gateway().health.notes()).toEqual([]);
    const first = b.submitted + 1;
    const used = await b.submit();
    const layout = { partitions: 4, tenantPartitions: 2 };
    const chosen = Array.from({ length: 40 }, (_, i) =>
      partitionOf(key.tenantId, recordKey(key.tenantId, `CHAT${first + i}`), layout),
    );
    expect(used).toEqual({ partitions: [...new Set(chosen)].sort(), generations: [2] });
  });
});

it.skipIf(brokers.length === 0)(
  'a topic recreated with fewer partitions than registered keeps the gateway from being ready',
  async () => {
    const b = await openTopicInUse();
    const { topic, env, log, kafka, specs } = b;
    await b.stop();
    await kafka.deleteTopics({ topics: [topic] });
    await waitFor(async () => (await log.partitionCounts([topic])).size === 0, {
      timeoutMs: TIMEOUT_MS,
      what: 'the topic to be gone',
    });
    await log.createTopics([{ ...specs.find((spec) => spec.topic === topic)!, partitions: 1 }]);
    await b.restart();
    await waitFor(
      () => {
        const reasons = b.gateway().health.readyReasons().join();
        if (reasons.includes(`${topic} has 1 partitions, registered: 2`)) return true;
        throw new Error(`ready reasons: ${reasons}`);
      },
      { timeoutMs: TIMEOUT_MS, what: 'a gateway that is not ready' },
    );
    expect(await runSluice('topics accept --partitions --yes', env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is registered with 2 partitions, but the log has 1'),
    });
  },
  120_000,
);

/** Starts a gateway and a worker on a topic of 2 partitions that has records in both. */
async function openTopicInUse(): Promise<TopicInUse> {
  const database = await copyTemplate();
  const kafka = new kafkajs.Kafka({ brokers, clientId: 'sluice-test-admin', logLevel: 0 }).admin();
  await kafka.connect();
  const opened = new TopicInUse(database, kafka);
  onTestFinished(() => opened.close());
  await opened.createTopics();
  await opened.restart();
  await opened.untilReady();
  expect(await opened.submit()).toEqual({ partitions: [0, 1], generations: [1] });
  return opened;
}

class TopicInUse {
  readonly #prefix = `sluice-test-${randomBytes(6).toString('hex')}.`;
  readonly topic = topicOf(this.#prefix, KIND);
  readonly specs = topicSpecs(this.#prefix, { partitions: 2, replicas: 1 });
  readonly pool: Pool;
  readonly log = createKafkaLog({
    brokers,
    clientId: 'sluice-test',
    logger,
    consumerTimes: { sessionTimeoutMs: 6000, heartbeatIntervalMs: 500, fetchWaitMs: 100 },
  });
  readonly kafka: kafkajs.Admin;
  /** Settings of the command. */
  readonly env: Readonly<Record<string, string>>;
  /** The tenant and its API key. */
  key!: { readonly tenantId: string; readonly apiKeyId: string; readonly apiKeySecret: string };
  /** Number of submissions, whose conversations are CHAT1, CHAT2, … */
  submitted = 0;
  readonly #database: Awaited<ReturnType<typeof copyTemplate>>;
  readonly #nextId = createUlidGenerator(systemClock);
  readonly #keyRing = createKeyRing(generateKeySpec());
  #gateway: Gateway | undefined;
  #workers: Workers | undefined;
  #workersHealth = createHealth();

  constructor(database: Awaited<ReturnType<typeof copyTemplate>>, kafka: kafkajs.Admin) {
    this.#database = database;
    this.pool = database.pool;
    this.kafka = kafka;
    this.env = {
      DATABASE_URL: database.url,
      KAFKA_BROKERS: brokers.join(','),
      SLUICE_TOPIC_PREFIX: this.#prefix,
    };
  }

  gateway(): Gateway {
    return this.#gateway!;
  }

  async createTopics(): Promise<void> {
    await this.log.createTopics(this.specs);
    await registerTopics(this.pool, this.specs, { tenantPartitions: 2, clock: systemClock });
    expect((await runSluice('tenants create acme --rate none', this.env)).code).toBe(0);
    const made = await runSluice('keys create --tenant acme --scope * --json', this.env);
    this.key = JSON.parse(made.stdout);
  }

  async restart(): Promise<void> {
    await this.stop();
    this.#workersHealth = createHealth();
    const shared = { pool: this.pool, log: this.log, clock: systemClock, nextId: this.#nextId, logger };
    this.#workers = startWorkers({
      ...shared,
      health: this.#workersHealth,
      prefix: this.#prefix,
      kinds: [KIND],
      credentialsTtlMs: 24 * HOUR_MS,
      topicRetentionMs: 168 * HOUR_MS,
    });
    this.#gateway = await startGateway({
      ...shared,
      // Kafka answers before the layouts are loaded.
      pool: delayedPool(this.pool, async (text) => {
        if (text.includes('from log_topics')) await sleep(LAYOUTS_DELAY_MS);
      }),
      keyRing: this.#keyRing,
      topicPrefix: this.#prefix,
      host: '127.0.0.1',
      port: 0,
      publishDeadlineMs: 10_000,
      publishBufferBytesMax: 1e6,
      drainDelayMs: 0,
    });
  }

  async stopGateway(): Promise<void> {
    await this.#gateway?.stop();
    this.#gateway = undefined;
  }

  async stop(): Promise<void> {
    await this.stopGateway();
    await this.#workers?.close();
    this.#workers = undefined;
  }

  async close(): Promise<void> {
    await this.stop();
    await this.log.close();
    const topics = this.specs.map((spec) => spec.topic);
    await this.kafka.deleteTopics({ topics }).catch(() => undefined);
    await this.kafka.disconnect();
    await this.#database.drop();
  }

  async untilReady(): Promise<void> {
    await waitFor(
      () =>
        [this.gateway().health, this.#workersHealth].every((health) => health.readyReasons().length === 0),
      { timeoutMs: TIMEOUT_MS, what: 'gateway and workers to be ready' },
    );
  }

  /**
   * Submits enough records to use every partition in use, and resolves with the partitions that
   * store them.
   */
  async submit(): Promise<unknown> {
    const ids: string[] = [];
    for (let i = 0; i < 40; i++) {
      this.submitted += 1;
      ids.push(`CHAT${this.submitted}`);
      await this.#authenticate(`CHAT${this.submitted}`);
    }
    const stored = async () =>
      (
        await this.pool.query<{ partition: number; generation: number }>(
          'select partition, generation from credentials where conversation_id = any($1)',
          [ids],
        )
      ).rows;
    await waitFor(async () => (await stored()).length === ids.length, {
      timeoutMs: TIMEOUT_MS,
      what: 'submissions to be stored',
    });
    const rows = await stored();
    return {
      partitions: [...new Set(rows.map(({ partition }) => partition))].sort(),
      generations: [...new Set(rows.map(({ generation }) => generation))],
    };
  }

  async #authenticate(conversationId: string): Promise<void> {
    const path = `/conversation/v1/conversations/${conversationId}/authenticate`;
    const answer = await fetch(`http://127.0.0.1:${this.gateway().port}${path}`, {
      method: 'POST',
      headers: {
        'service-api-id': this.key.apiKeyId,
        'service-api-secret': this.key.apiKeySecret,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ customerExternalId: 'c', token: 't' }),
    });
    expect(answer.status).toBe(204);
  }

  async addPartitions(name: string, count: number): Promise<void> {
    await this.kafka.createPartitions({ topicPartitions: [{ topic: name, count }] });
    // The broker may report the previous number for a moment.
    await waitFor(async () => (await this.log.partitionCounts([name])).get(name) === count, {
      timeoutMs: TIMEOUT_MS,
      what: `${name} to have ${count} partitions`,
    });
  }
}
