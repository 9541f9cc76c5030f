import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { waitFor } from '../support/wait.ts';

describe('brokers at IPv6 addresses are dialled', () => {
  let server: Server;
  let dials: number;
  let log: EventLog;

  beforeEach(async () => {
    dials = 0;
    server = createServer((socket) => {
      dials += 1;
      socket.destroy();
    }).listen(0, '::1');
    await once(server, 'listening');
    const brokers = [`[::1]:${(server.address() as AddressInfo).port}`];
    log = createKafkaLog({ brokers, clientId: 'sluice-test', logger: pino({ level: 'silent' }) });
  });
  afterEach(async () => {
    await log.close();
    server.close();
  });

  const dialled = () => waitFor(() => dials > 0, { timeoutMs: 10_000, what: 'a connection' });

  it('by requests for topics', async () => {
    await expect(log.partitionCounts(['t'])).rejects.toThrow(/KAFKA_BROKERS/);
    await dialled();
  });

  it('by the publisher', async () => {
    const publisher = log.createPublisher({ deadlineMs: 500, bufferedBytesMax: 8 * 1024 * 1024 });
    const [outcome] = await publisher.publish('t', [{ partition: 0, key: 'k', value: Buffer.from('v') }]);
    expect(outcome).toMatchObject({ ok: false });
    await dialled();
    await publisher.close();
  });

  it('by consumers', async () => {
    const consumer = log.createConsumer({
      topic: 't',
      group: 'g',
      batchRecordsMax: 1,
      startOffset: async () => 0n,
      onBatch: async () => {},
    });
    await dialled();
    await consumer.close();
  });
});
