import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { pino } from 'pino';
import { afterAll, describe, expect, inject, it, onTestFinished, type TestContext } from 'vitest';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { collect } from '../support/collect.ts';
import { createKafkaAdmin } from '../support/kafka-admin.ts';
import { type KafkaBroker, startKafkaBroker } from '../support/kafka-broker.ts';
import type { FreezableLog, LogHarness } from '../support/log-bench.ts';
import { waitFor } from '../support/wait.ts';
import { describeEventLog } from './log-conformance.ts';

const brokers = inject('kafkaBrokers').split(',').filter(Boolean);
const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
/** Kafka's default minimum session timeout, which a broker with default settings accepts. */
const SESSION_TIMEOUT_MS = 6_000;
const consumerTimes = { sessionTimeoutMs: SESSION_TIMEOUT_MS, heartbeatIntervalMs: 500, fetchWaitMs: 100 };

// Names the suite in the report of a run without a broker; SLUICE_TEST_REQUIRE_KAFKA fails such a run.
if (brokers.length === 0) describe.skip('event log: Kafka (no broker)');
else {
  describeEventLog('Kafka', makeHarness, { hasGroups: true });
  describe('event log: Kafka, its reader', () => {
    it('reports LOG_UNAVAILABLE if brokers return no more records before the end', readBeyondTheEnd, 30_000);
  });
  describe('event log: Kafka, its broker killed', () => {
    it('publisher and consumer recover by themselves, with every acknowledged record', surviveKill, 60_000);
  });
}

async function makeHarness(): Promise<LogHarness> {
  const options = { brokers, clientId: 'sluice-test', consumerTimes };
  const prefix = `sluice-test-${randomBytes(6).toString('hex')}`;
  const log = createKafkaLog({ ...options, logger });
  const admin = await createKafkaAdmin(brokers);
  return {
    log,
    prefix,
    child: { module: path.join(import.meta.dirname, '../support/open-kafka-log.mjs'), options },
    groups: { takeoverMs: SESSION_TIMEOUT_MS, offset: admin.groupOffset },
    freezable,
    async close() {
      await log.close();
      await admin.deleteTopics(prefix);
      await admin.close();
    },
  };
}

/**
 * A broker that the tests may stop and kill, unlike the shared one. Undefined if the shared broker
 * is external and none can be started here.
 */
let ownBroker: Promise<KafkaBroker | undefined> | undefined;

function startOwnBroker(): Promise<KafkaBroker | undefined> {
  ownBroker ??= startKafkaBroker({ sessionTimeoutMs: 3000 }).catch((error: unknown) => {
    if (!process.env.TEST_KAFKA_BROKERS) throw error;
    return undefined;
  });
  return ownBroker;
}

afterAll(async () => {
  await (await ownBroker)?.stop();
});

async function freezable(): Promise<FreezableLog | undefined> {
  const broker = await startOwnBroker();
  if (broker === undefined) return undefined;
  const log = createKafkaLog({ brokers: [broker.address], clientId: 'sluice-test', consumerTimes, logger });
  return {
    log,
    freeze: () => broker.kill('SIGSTOP'),
    thaw: () => broker.kill('SIGCONT'),
    async close() {
      await broker.kill('SIGCONT');
      await log.close();
    },
  };
}

/**
 * Tests fetches that return no records before the known end of the partition. A broker that
 * throttles the reader looks the same.
 */
async function readBeyondTheEnd(): Promise<void> {
  const harness = await makeHarness();
  onTestFinished(() => harness.close());
  const topic = `${harness.prefix}-unfinished`;
  await harness.log.createTopics([{ topic, partitions: 1, replicas: 1, retentionMs: 3_600_000 }]);
  const publisher = harness.log.createPublisher({ deadlineMs: 5_000, bufferedBytesMax: 1_048_576 });
  onTestFinished(() => publisher.close());
  const records = ['a', 'b', 'c'].map((value) => ({ partition: 0, key: 'k', value: Buffer.from(value) }));
  expect((await publisher.publish(topic, records)).every(({ ok }) => ok)).toBe(true);
  const reader = harness.log.createReader();
  onTestFinished(() => reader.close());
  const read: string[] = [];
  const reading = async () => {
    for await (const page of reader.pages({ topic, partition: 0, from: 0n, to: 4n }))
      read.push(...page.map(({ value }) => value.toString()));
  };
  await expect(reading()).rejects.toMatchObject({
    code: 'LOG_UNAVAILABLE',
    retryable: true,
    message: expect.stringContaining('from offset 3 to'),
  });
  expect(read).toEqual(['a', 'b', 'c']);
}

async function surviveKill({ skip }: TestContext): Promise<void> {
  const broker = (await startOwnBroker()) ?? skip('no broker that can be killed');
  const log = createKafkaLog({ brokers: [broker.address], clientId: 'sluice-test', consumerTimes, logger });
  const topic = 'sluice-test-kill';
  await log.createTopics([{ topic, partitions: 3, replicas: 1, retentionMs: 3_600_000 }]);
  const publisher = log.createPublisher({ deadlineMs: 2_000, bufferedBytesMax: 1_048_576 });
  onTestFinished(() => publisher.close());
  const collector = collect(log, topic, 'sluice-test-kill');
  onTestFinished(() => collector.consumer.close());
  const acknowledged: string[] = [];
  let calls = 0;
  const publish = async (): Promise<boolean> => {
    calls += 1;
    const values = [0, 1, 2].map((partition) => `${calls}.${partition}`);
    const records = values.map((value, partition) => ({ partition, key: 'k', value: Buffer.from(value) }));
    const outcomes = await publisher.publish(topic, records);
    acknowledged.push(...values.filter((_, index) => outcomes[index]!.ok));
    return outcomes.every(({ ok }) => ok);
  };
  const stored = (): Set<string> =>
    new Set([...collector.byPartition.values()].flat().map(({ value }) => value.toString()));
  const allStored = (): boolean => acknowledged.every((value) => stored().has(value));

  for (let call = 0; call < 20; call++) expect(await publish()).toBe(true);
  await waitFor(allStored, { timeoutMs: 10_000, what: 'the records before' });
  const underWay = Array.from({ length: 20 }, publish);
  await broker.kill('SIGKILL');
  await Promise.all(underWay);
  expect(await publish()).toBe(false);
  await waitFor(() => collector.consumer.status().problem, {
    timeoutMs: 10_000,
    what: 'a problem in the status',
  });
  await broker.restart();
  await waitFor(publish, { timeoutMs: 20_000, what: 'an acknowledgement after the restart' });
  await waitFor(allStored, { timeoutMs: 30_000, what: 'everything acknowledged at the consumer' });
  expect(collector.consumer.status().problem).toBeUndefined();
}
