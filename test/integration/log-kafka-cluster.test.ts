import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { EventLog, Publisher } from '../../shared/log/log.ts';
import { type Collector, collect } from '../support/collect.ts';
import { type KafkaCluster, startKafkaCluster } from '../support/kafka-cluster.ts';
import { metricValue } from '../support/metric-value.ts';
import { waitFor } from '../support/wait.ts';

const consumerTimes = { sessionTimeoutMs: 6_000, heartbeatIntervalMs: 500, fetchWaitMs: 100 };
/** The gateway's deadline for a probe of the log. */
const PROBE_DEADLINE_MS = 3_000;

// Names the suite in the report of a run without a broker; SLUICE_TEST_REQUIRE_KAFKA fails such a run.
if (inject('kafkaBrokers') === '') describe.skip('event log: Kafka, three brokers (no broker)');
else {
  describe('event log: Kafka, three brokers', () => {
    let cluster: KafkaCluster | undefined;
    let log: EventLog;
    let publisher: Publisher;

    beforeAll(async () => {
      cluster = await startKafkaCluster().catch((error: unknown) => {
        if (!process.env.TEST_KAFKA_BROKERS) throw error;
        return undefined;
      });
      if (cluster === undefined) return;
      const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
      const brokers = cluster.brokers.split(',');
      log = createKafkaLog({ brokers, clientId: 'sluice-test', consumerTimes, logger });
      publisher = log.createPublisher({ deadlineMs: 5_000, bufferedBytesMax: 1_048_576 });
    }, 180_000);

    afterAll(async () => {
      await publisher?.close();
      await log?.close();
      await cluster?.stop();
    });

    const publish = async (topic: string, partition: number): Promise<boolean> => {
      const [outcome] = await publisher.publish(topic, [{ partition, key: 'k', value: Buffer.from('v') }]);
      return outcome!.ok;
    };

    async function withTopic(topic: string, replicas: number): Promise<void> {
      await log.createTopics([{ topic, partitions: 3, replicas, retentionMs: 3_600_000 }]);
      for (const partition of [0, 1, 2]) {
        await waitFor(() => publish(topic, partition), { timeoutMs: 20_000, what: 'the first records' });
      }
    }

    function follow(topic: string, group: string): Collector {
      const collector = collect(log, topic, group);
      onTestFinished(() => collector.consumer.close());
      return collector;
    }

    const hasRead = (collector: Collector, counts: Readonly<Record<number, number>>, timeoutMs = 60_000) =>
      waitFor(
        () =>
          Object.entries(counts).every(
            ([partition, count]) => (collector.byPartition.get(Number(partition))?.length ?? 0) >= count,
          ),
        { timeoutMs, what: `the records ${JSON.stringify(counts)}` },
      );

    async function answersInTime(topic: string): Promise<void> {
      for (let look = 0; look < 5; look++) {
        const startedAtMs = performance.now();
        expect((await log.partitionCounts([topic])).get(topic)).toBe(3);
        expect(performance.now() - startedAtMs).toBeLessThan(PROBE_DEADLINE_MS);
      }
    }

    it('reads all other partitions while one has no leader, and that one after it has a leader again', async (context) => {
      if (cluster === undefined) return context.skip('no cluster that can be killed');
      const topic = 'sluice-test-leaderless';
      await withTopic(topic, 1);
      const early = follow(topic, 'early');
      await hasRead(early, { 0: 1, 1: 1, 2: 1 });
      const [leaderless, ...others] = [0, 1, 2];
      const gone = await cluster.leaderOf(topic, leaderless!);
      onTestFinished(async () => {
        if (!gone.alive) await gone.restart();
      });
      await gone.kill('SIGKILL');
      await waitFor(async () => !(await publish(topic, leaderless!)), {
        timeoutMs: 20_000,
        what: 'a record without a leader',
      });

      await answersInTime(topic);
      await waitFor(() => early.consumer.status().stopped.get(leaderless!)?.includes('has no leader'), {
        timeoutMs: 40_000,
        what: 'a reason',
      });
      const late = follow(topic, 'late');
      for (const partition of others) expect(await publish(topic, partition)).toBe(true);
      await hasRead(late, { 1: 2, 2: 2 });
      await hasRead(early, { 1: 2, 2: 2 });

      await waitFor(
        async () => (await metricValue('sluice_kafka_partitions_missing_copies', { topic })) === 1,
        { timeoutMs: 20_000, what: 'the partition among those that miss copies' },
      );
      expect(await metricValue('sluice_kafka_brokers')).toBe(2);
      await gone.restart();
      await waitFor(() => publish(topic, leaderless!), { timeoutMs: 30_000, what: 'its leader' });
      await hasRead(late, { 0: 2 });
      await hasRead(early, { 0: 2 });
      await waitFor(() => early.consumer.status().stopped.size === 0, {
        timeoutMs: 20_000,
        what: 'the reason to disappear',
      });
    }, 240_000);

    it('answers, and accepts new consumers, while the first broker of the settings hangs', async (context) => {
      if (cluster === undefined) return context.skip('no cluster that can be killed');
      const topic = 'sluice-test-hung';
      await withTopic(topic, 3);
      const [first] = cluster.nodes;
      await first!.kill('SIGSTOP');
      onTestFinished(() => first!.kill('SIGCONT'));
      await answersInTime(topic);
      const late = follow(topic, 'let in');
      await hasRead(late, { 0: 1, 1: 1, 2: 1 }, 120_000);
    }, 240_000);
  });
}
