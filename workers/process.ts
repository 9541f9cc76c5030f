import { systemClock } from '../shared/clock.ts';
import { reportCertificates } from '../shared/config/certificate-metrics.ts';
import {
  type Config,
  DATABASE_SETTINGS,
  environment,
  loadConfig,
  loadSettings,
  type SettingOf,
} from '../shared/config/config.ts';
import { retentionOf } from '../shared/config/retention.ts';
import { isKind, KINDS } from '../shared/contracts/kinds.ts';
import { AppError } from '../shared/errors.ts';
import { createHealthApp } from '../shared/http/base-app.ts';
import { createHealth } from '../shared/http/health.ts';
import { reportHealth } from '../shared/http/health-metrics.ts';
import { listen } from '../shared/http/listener/serve.ts';
import { createUlidGenerator } from '../shared/ids.ts';
import { createKeyRing } from '../shared/keyring/keyring.ts';
import { createKafkaLog } from '../shared/log/kafka/kafka-log.ts';
import { kafkaOptionsOf } from '../shared/log/kafka/security.ts';
import { watchTopics } from '../shared/log/kafka/topic-watch.ts';
import { createLogger } from '../shared/logging.ts';
import { startDefaultMetrics } from '../shared/metrics/default-metrics.ts';
import { PART_NAMES } from '../shared/postgres/client.ts';
import { expectedTopics, TOPIC_RETENTION_MS } from '../shared/postgres/log-topics.ts';
import { createPool } from '../shared/postgres/pool.ts';
import { reportPool } from '../shared/postgres/pool-metrics.ts';
import { requireSchema } from '../shared/postgres/require-schema.ts';
import { cannotStart, WRONG_USAGE } from '../shared/process/main.ts';
import { openOutput } from '../shared/process/output.ts';
import { stopOnSignals } from '../shared/process/shutdown.ts';
import { startTracing, stopTracing } from '../shared/tracing/tracer.ts';
import { startWorkers, type WorkersDeps } from './start.ts';
import type { WebhooksDeps } from './webhooks/start.ts';

/** The process's name in messages. */
export const NAME = 'The worker';

const WEBHOOKS = 'webhooks';
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/**
 * Longer than the time for which a worker that is frozen in its transaction can lock a position.
 */
const ANSWER_TIMEOUT_MS = 60_000;

/**
 * Runs a worker process: all workers, or those named as arguments (kinds of records, or
 * `webhooks`). `onStep` is for tests that kill the process between two steps of a batch.
 */
export async function runWorker(options: Pick<WorkersDeps, 'onStep'> = {}): Promise<void> {
  const names = workerNames(process.argv.slice(2));
  const kinds = names.filter(isKind);
  const env = environment();
  const config = loadConfig(env, names.includes(WEBHOOKS) ? 'worker' : 'worker-without-webhooks');
  const output = openOutput();
  const logger = createLogger('worker', config.SLUICE_LOG_LEVEL, output);
  await startTracing(env, { service: 'sluice-worker', messagingSystem: 'kafka', logger });
  const pool = createPool({
    connectionString: config.DATABASE_URL!,
    max: config.SLUICE_DATABASE_CONNECTIONS,
    applicationName: PART_NAMES.worker,
    logger,
    answerTimeoutMs: ANSWER_TIMEOUT_MS,
    pipeline: config.SLUICE_DATABASE_PIPELINING === 'on',
  });
  const sessionTimeoutMs = config.SLUICE_KAFKA_SESSION_MS;
  const log = createKafkaLog({
    ...kafkaOptionsOf(config),
    clientId: 'sluice-worker',
    logger,
    consumerTimes: { sessionTimeoutMs, heartbeatIntervalMs: Math.ceil(sessionTimeoutMs / 10) },
  });
  await requireSchema({ pool, logger, onUnfit: (error) => cannotStart(NAME, error) });
  const health = createHealth();
  startDefaultMetrics('worker');
  reportCertificates(config);
  reportHealth('worker', health);
  reportPool('worker', pool);
  const nextId = createUlidGenerator(systemClock);
  const shared = { pool, log, clock: systemClock, nextId, logger, health };
  const webhooks = names.includes(WEBHOOKS) ? await prepareWebhooks(env) : undefined;
  const server = await listen({
    fetch: createHealthApp(health, nextId).fetch,
    host: config.WORKER_HOST,
    port: config.WORKER_PORT,
    portSetting: 'WORKER_PORT',
    nextId,
  });
  // No `await` before the signal handler: once /health answers, the process must stop gracefully on
  // a signal.
  const parts: { close(): Promise<void> }[] = [];
  if (kinds.length > 0) parts.push(startWorkers({ ...shared, ...options, kinds, ...optionsOf(config) }));
  if (webhooks) parts.push(webhooks(shared));
  logger.info({ workers: names, host: server.host, port: server.port }, 'workers started');
  const topics = watchTopics({ log, specs: expectedTopics(config.SLUICE_TOPIC_PREFIX), logger });
  stopOnSignals({
    logger,
    output,
    graceMs: config.SLUICE_SHUTDOWN_GRACE_MS,
    async stop() {
      health.setReady('stopping', 'shutdown in progress');
      topics.close();
      await Promise.all(parts.map((part) => part.close()));
      await server.close();
      await log.close();
      await Promise.all([pool.end(), stopTracing()]);
    },
  });
}

/**
 * Loads the webhook worker only if it runs, because its HTTP client is large. Resolves with the
 * function that starts the worker.
 */
async function prepareWebhooks(env: ReturnType<typeof environment>) {
  const config = loadSettings(env, 'worker', [
    ...DATABASE_SETTINGS,
    'SLUICE_WEBHOOK_ALLOW',
    'SLUICE_CREDENTIALS_KEYS',
  ]);
  const { startWebhooks } = await import('./webhooks/start.ts');
  const settings = {
    allow: config.SLUICE_WEBHOOK_ALLOW ?? [],
    keyRing: createKeyRing(config.SLUICE_CREDENTIALS_KEYS!),
    directUrl: config.DATABASE_DIRECT_URL,
  };
  return (shared: Omit<WebhooksDeps, keyof typeof settings>) => startWebhooks({ ...shared, ...settings });
}

function workerNames(given: readonly string[]): readonly string[] {
  const all: readonly string[] = [...KINDS, WEBHOOKS];
  const unknown = given.filter((name) => !all.includes(name));
  if (unknown.length > 0) {
    throw new AppError(
      WRONG_USAGE,
      `there is no worker ${unknown.join(', ')}; name any of ${all.join(', ')}, or none for all`,
    );
  }
  return given.length > 0 ? [...new Set(given)] : all;
}

function optionsOf(config: Config<SettingOf<'worker-without-webhooks'>>) {
  return {
    prefix: config.SLUICE_TOPIC_PREFIX,
    credentialsTtlMs: config.SLUICE_CREDENTIALS_TTL_HOURS * HOUR_MS,
    topicRetentionMs: TOPIC_RETENTION_MS,
    retention: retentionOf(config),
    erasedIdsKeptMs: config.SLUICE_ERASED_IDS_DAYS * DAY_MS,
  };
}
