import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { pino } from 'pino';
import { describe, inject } from 'vitest';
import { createKafkaLog } from '../../shared/log/kafka.ts';
import { createKafkaAdmin } from '../support/kafka-admin.ts';
import { startKafkaBroker } from '../support/kafka-broker.ts';
import { describeEventLog, type FreezableLog, type LogHarness } from './log-conformance.ts';

const brokers = inject('kafkaBrokers').split(',').filter(Boolean);
const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
/** Kafka's default smallest session timeout, so that a broker with default settings takes it. */
const SESSION_TIMEOUT_MS = 6_000;
const consumerTimes = { sessionTimeoutMs: SESSION_TIMEOUT_MS, heartbeatIntervalMs: 500, fetchWaitMs: 100 };

if (brokers.length === 0) describe.skip('event log: Kafka (no broker)');
else describeEventLog('Kafka', makeHarness);

async function makeHarness(): Promise<LogHarness> {
  const options = { brokers, clientId: 'sluice-test', consumerTimes };
  const prefix = `sluice-test-${randomBytes(6).toString('hex')}`;
  const log = createKafkaLog({ ...options, logger });
  const admin = await createKafkaAdmin(brokers);
  return {
    log,
    prefix,
    child: { module: path.join(import.meta.dirname, '../support/open-kafka-log.mjs'), options },
    takeoverMs: SESSION_TIMEOUT_MS,
    groupOffset: admin.groupOffset,
    freezable,
    async close() {
      await log.close();
      await admin.deleteTopics(prefix);
      await admin.close();
    },
  };
}

/** On a broker of its own, which is stopped and continued; the shared one stays as it is. */
async function freezable(): Promise<FreezableLog> {
  const broker = await startKafkaBroker();
  const log = createKafkaLog({ brokers: [broker.address], clientId: 'sluice-test', consumerTimes, logger });
  return {
    log,
    freeze: () => broker.kill('SIGSTOP'),
    thaw: () => broker.kill('SIGCONT'),
    async close() {
      await log.close();
      await broker.stop();
    },
  };
}
