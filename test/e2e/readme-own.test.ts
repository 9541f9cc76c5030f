import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { describe, expect, inject, it } from 'vitest';
import { ConfigError, loadConfig } from '../../shared/config/config.ts';
import { createKafkaAdmin } from '../support/kafka-admin.ts';
import { copyTemplate } from '../support/postgres.ts';
import { freePorts, ROOT } from '../support/program.ts';
import {
  blocksOf,
  expectFirstTry,
  firstTrySteps,
  operationsBlocksOf,
  runBlocks,
  withReceiver,
} from '../support/readme.ts';

const OPERATIONS_SECTION = 'Your own services';
const brokers = inject('kafkaBrokers');

describe.skipIf(brokers === '')('documented commands on your own Kafka and Postgres', () => {
  it('set up an empty database and complete the first try', async () => {
    const database = await copyTemplate();
    await database.pool.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    const [port, adminPort, workerPort, receiverPort] = await freePorts(4);
    const topicPrefix = `test-${randomBytes(6).toString('hex')}.`;
    const folder = await mkdtemp(join(tmpdir(), 'sluice-readme-'));
    try {
      const output = await runBlocks(
        [
          ...(await blocksOf('On your own Kafka and Postgres')),
          ...(await operationsBlocksOf(OPERATIONS_SECTION)),
          ...withReceiver(await firstTrySteps()),
        ],
        [
          // Skipped: the command would delete the dependencies of the running tests.
          ['npm ci\n', ''],
          ['postgres://sluice:password@localhost:5432/sluice', database.url],
          ['localhost:9092', brokers],
          ['127.0.0.1:8080', `127.0.0.1:${port}`],
          ['127.0.0.1:8081', `127.0.0.1:${adminPort}`],
          ['127.0.0.0/8:9000', `127.0.0.0/8:${receiverPort}`],
          ['127.0.0.1:9000', `127.0.0.1:${receiverPort}`],
          ['--silent receiver', `--silent receiver -- ${receiverPort}`],
          ['sluice.keys', join(folder, 'sluice.keys')],
          ['HEADERS=sluice.headers', `HEADERS=${join(folder, 'sluice.headers')}`],
        ],
        {
          cwd: ROOT,
          env: {
            PORT: String(port),
            ADMIN_PORT: String(adminPort),
            WORKER_PORT: String(workerPort),
            METRICS_PORT: '0',
            SLUICE_TOPIC_PREFIX: topicPrefix,
            SLUICE_DRAIN_DELAY_MS: '0',
          },
          timeoutMs: 170_000,
        },
      );
      expectFirstTry(output);
    } finally {
      const admin = await createKafkaAdmin(brokers.split(','));
      await admin.deleteTopics(topicPrefix);
      await admin.close();
      await database.drop();
      await rm(folder, { recursive: true });
    }
  }, 180_000);
});

it('the documented settings of TLS and passwords are valid together', async () => {
  const [lines] = await operationsBlocksOf(OPERATIONS_SECTION, 'ini');
  const env = {
    DATABASE_URL: 'postgres://sluice@localhost/sluice',
    KAFKA_BROKERS: 'localhost:9092',
    ...parseEnv(lines!),
  };
  // Settings with missing files, the only problem of the environment.
  const files = ['KAFKA_TLS_CA', 'KAFKA_TLS_CERT', 'KAFKA_TLS_KEY', 'DATABASE_TLS_CA'];
  expect(problemsOf(env).toSorted()).toEqual(
    files.map((name) => `${name} names a file that cannot be read (ENOENT)`).toSorted(),
  );
});

function problemsOf(env: Record<string, string | undefined>): string[] {
  try {
    loadConfig(env, 'worker-without-webhooks');
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ name, problem }) => `${name} ${problem}`);
  }
}
