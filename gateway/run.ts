import cluster from 'node:cluster';
import { systemClock } from '../shared/clock.ts';
import { reportCertificates } from '../shared/config/certificate-metrics.ts';
import {
  BODY_BUFFER_BYTES_MIN,
  type Config,
  environment,
  loadConfig,
  PUBLISH_BUFFER_BYTES_MIN,
  type SettingOf,
  warnOfIgnoredSettings,
} from '../shared/config/config.ts';
import { createHealth } from '../shared/http/health.ts';
import { serveMetrics } from '../shared/http/listener/serve-metrics.ts';
import { createUlidGenerator } from '../shared/ids.ts';
import { createKeyRing } from '../shared/keyring/keyring.ts';
import { createKafkaLog } from '../shared/log/kafka/kafka-log.ts';
import { kafkaOptionsOf } from '../shared/log/kafka/security.ts';
import { watchTopics } from '../shared/log/kafka/topic-watch.ts';
import { createLogger, type Logger } from '../shared/logging.ts';
import { startDefaultMetrics } from '../shared/metrics/default-metrics.ts';
import { PART_NAMES } from '../shared/postgres/client.ts';
import { expectedTopics } from '../shared/postgres/log-topics.ts';
import { createPool } from '../shared/postgres/pool.ts';
import { reportPool } from '../shared/postgres/pool-metrics.ts';
import { requireSchema } from '../shared/postgres/require-schema.ts';
import { cannotStart, runMain } from '../shared/process/main.ts';
import { type Output, openOutput } from '../shared/process/output.ts';
import { stopOnSignals } from '../shared/process/shutdown.ts';
import { startTracing, stopTracing } from '../shared/tracing/tracer.ts';
import { answerMetricsRequests } from './process-metrics.ts';
import { startGateway } from './start.ts';
import { onSupervisorEnd, runSupervisor } from './supervisor.ts';
import { reportTenants } from './tenant-metrics.ts';

type GatewayConfig = Config<SettingOf<'gateway'>>;

const NAME = 'The gateway';
/**
 * Milliseconds that one of several processes waits until it is ready, while the others serve. After
 * that it listens nevertheless, so that `/health/ready` can report the reasons.
 */
const READY_WAIT_MS = 5000;

/** Runs a gateway, or the supervisor of several processes. */
async function main(): Promise<void> {
  const env = environment();
  const config = loadConfig(env, 'gateway');
  const output = openOutput();
  const logger = createLogger('gateway', config.SLUICE_LOG_LEVEL, output);
  if (!cluster.isWorker) warnOfIgnoredSettings(env, 'gateway', logger);
  if (config.SLUICE_PROCESSES === 1) return await runGateway(config, logger, output);
  if (cluster.isWorker) return await runGateway(config, logger.child({ pid: process.pid }), output);
  await runSupervisor({
    serveMetrics: (collect, health) =>
      serveMetrics({
        ...metricsAddress(config),
        collect,
        health,
        nextId: createUlidGenerator(systemClock),
        logger,
      }),
    processes: config.SLUICE_PROCESSES,
    graceMs: config.SLUICE_SHUTDOWN_GRACE_MS,
    logger,
    output,
  });
}

/** Runs one gateway process: starts the listener, and drains it on shutdown. */
async function runGateway(config: GatewayConfig, logger: Logger, output: Output): Promise<void> {
  await startTracing(environment(), { service: 'sluice-gateway', messagingSystem: 'kafka', logger });
  let isStopping = false;
  onSupervisorEnd(() => {
    if (isStopping) return;
    logger.warn('supervisor ended');
    process.kill(process.pid, 'SIGTERM');
  });
  const pool = createPool({
    connectionString: config.DATABASE_URL!,
    max: config.SLUICE_DATABASE_CONNECTIONS,
    applicationName: PART_NAMES.gateway,
    logger,
  });
  const log = createKafkaLog({ ...kafkaOptionsOf(config), clientId: 'sluice-gateway', logger });
  const options = optionsOf(config);
  const { keyRing } = options;
  await requireSchema({ pool, logger, keyRing, onUnfit: (error) => cannotStart(NAME, error) });
  const health = createHealth();
  startDefaultMetrics('gateway');
  reportTenants(config.SLUICE_METRICS_TENANTS);
  reportCertificates(config);
  reportPool('gateway', pool);
  answerMetricsRequests();
  const metrics = cluster.isWorker
    ? undefined
    : await serveMetrics({ ...metricsAddress(config), health, nextId: options.nextId, logger });
  const gateway = await startGateway({ pool, log, logger, health, ...options });
  const topics = watchTopics({ log, specs: expectedTopics(config.SLUICE_TOPIC_PREFIX), logger });
  stopOnSignals({
    logger,
    output,
    graceMs: config.SLUICE_SHUTDOWN_GRACE_MS,
    async stop() {
      isStopping = true;
      topics.close();
      await gateway.stop();
      await log.close();
      await pool.end();
      await metrics?.close();
      await stopTracing();
    },
  });
}

function metricsAddress(config: GatewayConfig) {
  return { host: config.METRICS_HOST, port: config.METRICS_PORT };
}

/** Returns the options of one process. The limits of the gateway are divided between its processes. */
function optionsOf(config: GatewayConfig) {
  const processes = config.SLUICE_PROCESSES;
  const shareOf = (bytes: number, min: number) => Math.max(min, Math.floor(bytes / processes));
  return {
    keyRing: createKeyRing(config.SLUICE_CREDENTIALS_KEYS!),
    clock: systemClock,
    nextId: createUlidGenerator(systemClock),
    topicPrefix: config.SLUICE_TOPIC_PREFIX,
    host: config.HOST,
    port: config.PORT,
    publishDeadlineMs: config.SLUICE_PUBLISH_DEADLINE_MS,
    publishBufferBytesMax: shareOf(config.SLUICE_PUBLISH_BUFFER_BYTES, PUBLISH_BUFFER_BYTES_MIN),
    deadLettersBytesMax: config.SLUICE_DEAD_LETTERS_BYTES_MAX,
    drainDelayMs: config.SLUICE_DRAIN_DELAY_MS,
    readyWaitMs: processes > 1 ? READY_WAIT_MS : 0,
    gateways: config.SLUICE_GATEWAYS * processes,
    bodyBufferBytesMax: shareOf(config.SLUICE_BODY_BUFFER_BYTES, BODY_BUFFER_BYTES_MIN),
    connections: {
      connectionsMax: Math.ceil(config.SLUICE_CONNECTIONS_MAX / processes),
      trustedHops: config.SLUICE_TRUSTED_HOPS,
      keepAliveMs: config.SLUICE_KEEP_ALIVE_MS,
    },
    docs: config.SLUICE_DOCS === 'on',
  };
}

await runMain(NAME, main);
