import { randomBytes } from 'node:crypto';
import kafkajs from 'kafkajs';
import { pino } from 'pino';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { topicShortfalls } from '../../shared/log/kafka/topic-check.ts';
import { topicSpecs } from '../../shared/postgres/log-topics.ts';
import { createKafkaAdmin } from '../support/kafka-admin.ts';
import { waitFor } from '../support/wait.ts';

const brokers = inject('kafkaBrokers').split(',').filter(Boolean);
const consumerTimes = { sessionTimeoutMs: 6000, heartbeatIntervalMs: 500, fetchWaitMs: 100 };

/**
 * Returns a zstd frame with one uncompressed block, which any zstd writer may produce for
 * incompressible data.
 */
function zstdFrame(data: Buffer): Buffer {
  const head = Buffer.alloc(4 + 1 + 4 + 3);
  head.writeUInt32LE(0xfd2fb528, 0);
  // A single segment, with its size in 4 bytes.
  head.writeUInt8(0b1010_0000, 4);
  head.writeUInt32LE(data.length, 5);
  const last = 1;
  head.writeUIntLE((data.length << 3) | last, 9, 3);
  return Buffer.concat([head, data]);
}

// Names the suite in the report of a run without a broker; SLUICE_TEST_REQUIRE_KAFKA fails such a run.
if (brokers.length === 0) describe.skip('a topic that something else writes to (no broker)');
else {
  describe('a topic with another producer', () => {
    it('is read past a batch in a compression that the client does not know', async () => {
      const prefix = `sluice-test-${randomBytes(6).toString('hex')}.`;
      const log = createKafkaLog({
        brokers,
        clientId: 'sluice-test',
        consumerTimes,
        logger: pino({ level: 'silent' }),
      });
      onTestFinished(async () => {
        await log.close();
        const admin = await createKafkaAdmin(brokers);
        await admin.deleteTopics(prefix);
        await admin.close();
      });
      const specs = topicSpecs(prefix, { partitions: 2, replicas: 1 });
      await log.createTopics(specs);
      const found = await log.describeTopics(specs.map(({ topic }) => topic));
      expect(topicShortfalls(specs, found).map(({ problem }) => problem)).toEqual([
        expect.stringMatching(/^only one replica/),
        expect.stringMatching(/^min\.insync\.replicas is 1/),
      ]);
      const { topic } = specs[0]!;

      const { ZSTD } = kafkajs.CompressionTypes;
      kafkajs.CompressionCodecs[ZSTD] = () => ({
        compress: async ({ buffer }: { buffer: Buffer }) => zstdFrame(buffer),
        decompress: async () => Promise.reject(new Error('there is no zstd in here')),
      });
      onTestFinished(() => void Reflect.deleteProperty(kafkajs.CompressionCodecs, ZSTD));
      const producer = new kafkajs.Kafka({ brokers, logLevel: kafkajs.logLevel.NOTHING }).producer({
        createPartitioner: () => () => 0,
      });
      await producer.connect();
      await producer.send({ topic, compression: ZSTD, messages: [{ key: 'k', value: 'of something else' }] });
      await producer.disconnect();
      const publisher = log.createPublisher({ deadlineMs: 10_000, bufferedBytesMax: 8 * 1_048_576 });
      onTestFinished(() => publisher.close());
      const value = Buffer.from('ours');
      expect(await publisher.publish(topic, [{ partition: 0, key: 'k', value }])).toMatchObject([
        { ok: true },
      ]);

      const seen: string[] = [];
      const consumer = log.createConsumer({
        topic,
        group: topic,
        batchRecordsMax: 100,
        startOffset: async (_, { earliest }) => earliest,
        onBatch: async ({ records }) => {
          for (const record of records) seen.push(record.value.toString());
        },
      });
      onTestFinished(() => consumer.close());
      await waitFor(() => seen.length === 2, { timeoutMs: 20_000, what: 'both records to be read' });
      expect(seen).toEqual(['of something else', 'ours']);
    });
  });
}
