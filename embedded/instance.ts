import { setTimeout as delay } from 'node:timers/promises';
import { startAdmin } from '../admin/start.ts';
import type { Demo } from '../cli/data-dir/demo-file.ts';
import { keyRingFileName, readKeyRingFile, writeKeyRingFile } from '../cli/data-dir/key-ring-file.ts';
import { startGateway } from '../gateway/start.ts';
import { reportTenants } from '../gateway/tenant-metrics.ts';
import { type Clock, systemClock } from '../shared/clock.ts';
import type { Config, SettingOf } from '../shared/config/config.ts';
import { retentionOf } from '../shared/config/retention.ts';
import { createHealth, type Health } from '../shared/http/health.ts';
import { reportHealth } from '../shared/http/health-metrics.ts';
import { serveMetrics } from '../shared/http/listener/serve-metrics.ts';
import { METRICS_PATH } from '../shared/http/metrics-route.ts';
import { createUlidGenerator, type IdGenerator } from '../shared/ids.ts';
import { createKeyRing, generateKeySpec, type KeyRing } from '../shared/keyring/keyring.ts';
import { createEmbeddedLog } from '../shared/log/embedded/embedded-log.ts';
import type { EventLog } from '../shared/log/log.ts';
import type { Logger } from '../shared/logging.ts';
import { startDefaultMetrics } from '../shared/metrics/default-metrics.ts';
import { PART_NAMES } from '../shared/postgres/client.ts';
import { registerTopics, TOPIC_RETENTION_MS, topicSpecs } from '../shared/postgres/log-topics.ts';
import { migrate } from '../shared/postgres/migrate.ts';
import { createPool, type Pool } from '../shared/postgres/pool.ts';
import { reportPool } from '../shared/postgres/pool-metrics.ts';
import { requireKeys } from '../shared/postgres/require-keys.ts';
import { startWorkers } from '../workers/start.ts';
import { startWebhooks } from '../workers/webhooks/start.ts';
import { reportDataDir } from './data-dir-metrics.ts';
import { ensureDemoKey, writeDemo } from './demo.ts';
import { startEmbeddedPostgres } from './postgres/postgres.ts';

/** All parts of the product, running in this process. */
export interface Instance {
  readonly demo: Demo;
  /** Whether this start generated the demo's key. */
  readonly demoIsNew: boolean;
  /** Paths of the files with the demo and with its request headers. */
  readonly demoFile: string;
  readonly headersFile: string;
  /** One sentence per stored value that the key ring cannot decrypt. */
  readonly keyProblems: readonly string[];
  /** Drains the listeners, finishes the workers' batches, and stops Postgres. */
  stop(): Promise<void>;
}

/**
 * Partitions per tenant in a topic. One process reads all partitions, so larger batches cost less
 * than parallel ones, and tenants share fewer partitions.
 */
const TENANT_PARTITIONS = 1;
const TOPIC_COUNTS = { partitions: 12, replicas: 1 };
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/**
 * Database connections reserved for the admin listener, so that admin requests and the other parts
 * do not block each other. Enough for two erasure steps, one look-up of API keys and three
 * requests.
 */
const ADMIN_CONNECTIONS = 6;
/**
 * Maximum wait until all parts are ready. The start then continues, and `/health/ready` reports the
 * reasons.
 */
const READY_WAIT_MS = 10_000;
const READY_POLL_MS = 20;
interface Start {
  readonly config: Config<SettingOf<'embedded'>>;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  /** Registers how to stop a part that was started; parts are stopped in reverse order. */
  onStop(stopPart: () => Promise<void>): void;
}

/** Resources that the parts share. */
interface Shared {
  readonly pool: Pool;
  readonly log: EventLog;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
}

/**
 * Starts all parts in this process and resolves once they are ready to take requests. If a part
 * cannot start, the parts already started are stopped. Rejects with the AppErrors of the parts.
 */
export async function startInstance(
  config: Config<SettingOf<'embedded'>>,
  logger: Logger,
): Promise<Instance> {
  const stops: (() => Promise<void>)[] = [];
  const stop = async () => {
    for (const stopPart of stops.splice(0).reverse()) await stopPart();
  };
  const clock = systemClock;
  const nextId = createUlidGenerator(clock);
  try {
    const started = await startParts({ config, logger, clock, nextId, onStop: (part) => stops.push(part) });
    return { ...started, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startParts(start: Start): Promise<Omit<Instance, 'stop'>> {
  const { config, logger, clock, nextId } = start;
  const dataDir = config.SLUICE_DATA_DIR;
  const { pool, connectionString } = await startDatabase(start);
  const log = await openLog(start, pool);
  const keyRing = await openKeyRing(config);
  const keyProblems = await requireKeys(pool, keyRing);
  const { key, isNew: demoIsNew } = await ensureDemoKey(pool, dataDir, { clock, nextId });
  const shared = { pool, log, keyRing, clock, nextId, logger };
  const workers = startConsumers(start, shared);
  const admin = await startAdminListener(start, shared, connectionString, workers);
  const gateway = await startGatewayListener(start, shared);
  const metrics = await startMetricsListener(start, gateway.health);
  // The gateway's own health check is public, so it shows only names. The admin listener shows
  // details.
  admin.health.watchNote('gateway', () => texts(gateway.health.readyReasons()));
  admin.health.watchNote('gateway notes', () => texts(gateway.health.notes()));
  // Not ready until the file with the API key exists, so that a caller that waits for readiness can
  // read the file.
  gateway.health.setReady('start', 'is not finished');
  const demo = {
    baseUrl: urlOf(gateway),
    adminUrl: urlOf(admin),
    metricsUrl: `${urlOf(metrics)}${METRICS_PATH}`,
    ...key,
  };
  const files = await writeDemo(dataDir, demo);
  gateway.health.setReady('start', undefined);
  await untilReady([gateway.health, admin.health]);
  return { demo, demoIsNew, ...files, keyProblems };
}

async function startDatabase({ config, logger, onStop }: Start) {
  const postgres = await startEmbeddedPostgres({
    dataDir: config.SLUICE_DATA_DIR,
    logger,
    onLost(error) {
      logger.fatal({ err: error }, 'the data directory belongs to another process now');
      process.exit(1);
    },
  });
  onStop(() => postgres.stop());
  const { connectionString } = postgres;
  await migrate({ connectionString, logger });
  const pool = createPool({
    connectionString,
    max: config.SLUICE_DATABASE_CONNECTIONS,
    applicationName: 'sluice',
    logger,
    pipeline: config.SLUICE_DATABASE_PIPELINING === 'on',
  });
  onStop(() => pool.end());
  reportPool('sluice', pool);
  return { connectionString, pool };
}

async function openLog({ config, logger, clock, onStop }: Start, pool: Pool): Promise<EventLog> {
  const log = createEmbeddedLog({ pool, clock, logger });
  onStop(() => log.close());
  const specs = topicSpecs(config.SLUICE_TOPIC_PREFIX, TOPIC_COUNTS);
  await log.createTopics(specs);
  // Topics of an earlier release keep the number of partitions with which they were created.
  const counts = await log.partitionCounts(specs.map((spec) => spec.topic));
  const topics = [...counts].map(([topic, partitions]) => ({ topic, partitions }));
  await registerTopics(pool, topics, { tenantPartitions: TENANT_PARTITIONS, clock });
  return log;
}

/**
 * Returns the key ring of the settings, or the key ring of the data directory, which the first
 * start generates. An existing key ring is never replaced: without that ring, stored credentials
 * cannot be decrypted.
 */
async function openKeyRing(config: Start['config']): Promise<KeyRing> {
  const spec = config.SLUICE_CREDENTIALS_KEYS;
  if (spec !== undefined) return createKeyRing(spec);
  const dataDir = config.SLUICE_DATA_DIR;
  const stored = await readKeyRingFile(dataDir);
  if (stored !== undefined) return stored;
  const generated = generateKeySpec();
  await writeKeyRingFile(dataDir, generated);
  return createKeyRing(generated, keyRingFileName(dataDir));
}

/** Starts the workers and the webhook dispatcher; returns their health. */
function startConsumers({ config, onStop }: Start, shared: Shared): Health {
  const health = createHealth();
  reportHealth('worker', health);
  const workers = startWorkers({
    ...shared,
    health,
    prefix: config.SLUICE_TOPIC_PREFIX,
    credentialsTtlMs: config.SLUICE_CREDENTIALS_TTL_HOURS * HOUR_MS,
    topicRetentionMs: TOPIC_RETENTION_MS,
    retention: retentionOf(config),
    erasedIdsKeptMs: config.SLUICE_ERASED_IDS_DAYS * DAY_MS,
  });
  onStop(() => workers.close());
  const webhooks = startWebhooks({ ...shared, health, allow: config.SLUICE_WEBHOOK_ALLOW ?? [] });
  onStop(() => webhooks.close());
  return health;
}

/**
 * Starts the admin listener. The workers have no listener in this process, so the admin listener
 * also reports their health.
 */
async function startAdminListener(
  { config, logger, onStop }: Start,
  shared: Shared,
  connectionString: string,
  workers: Health,
) {
  const options = { max: ADMIN_CONNECTIONS, applicationName: PART_NAMES.admin };
  const pool = createPool({ connectionString, logger, ...options });
  onStop(() => pool.end());
  reportPool('admin', pool);
  const admin = await startAdmin({
    ...shared,
    pool,
    allow: config.SLUICE_WEBHOOK_ALLOW ?? [],
    requestsPerSecond: config.SLUICE_ADMIN_RATE,
    keysPerDayMax: config.SLUICE_KEYS_PER_DAY,
    origins: config.SLUICE_ADMIN_ORIGINS ?? [],
    topicPrefix: config.SLUICE_TOPIC_PREFIX,
    endpointsMax: config.SLUICE_WEBHOOK_ENDPOINTS_MAX,
    host: config.ADMIN_HOST,
    port: config.ADMIN_PORT,
    drainDelayMs: config.SLUICE_DRAIN_DELAY_MS,
    keepAliveMs: config.SLUICE_KEEP_ALIVE_MS,
  });
  onStop(() => admin.stop());
  admin.health.watchReady('workers', () => texts(workers.readyReasons()));
  admin.health.watchLive('workers', () => texts(workers.liveReasons()));
  admin.health.watchNote('workers', () => texts(workers.notes()));
  return admin;
}

async function startGatewayListener({ config, onStop }: Start, shared: Shared) {
  const gateway = await startGateway({
    ...shared,
    topicPrefix: config.SLUICE_TOPIC_PREFIX,
    host: config.HOST,
    port: config.PORT,
    publishDeadlineMs: config.SLUICE_PUBLISH_DEADLINE_MS,
    publishBufferBytesMax: config.SLUICE_PUBLISH_BUFFER_BYTES,
    deadLettersBytesMax: config.SLUICE_DEAD_LETTERS_BYTES_MAX,
    drainDelayMs: config.SLUICE_DRAIN_DELAY_MS,
    bodyBufferBytesMax: config.SLUICE_BODY_BUFFER_BYTES,
    connections: {
      connectionsMax: config.SLUICE_CONNECTIONS_MAX,
      trustedHops: config.SLUICE_TRUSTED_HOPS,
      keepAliveMs: config.SLUICE_KEEP_ALIVE_MS,
    },
    docs: config.SLUICE_DOCS === 'on',
  });
  onStop(() => gateway.stop());
  return gateway;
}

/** Starts the listener that serves the metrics of all parts. */
async function startMetricsListener({ config, logger, nextId, onStop }: Start, health: Health) {
  startDefaultMetrics('embedded');
  reportTenants(config.SLUICE_METRICS_TENANTS);
  reportDataDir(config.SLUICE_DATA_DIR);
  const metrics = await serveMetrics({
    host: config.METRICS_HOST,
    port: config.METRICS_PORT,
    health,
    nextId,
    logger,
  });
  onStop(() => metrics.close());
  return metrics;
}

/** Waits until the parts are ready, so that all parts are connected before the first request. */
async function untilReady(parts: readonly Health[]): Promise<void> {
  const deadlineMs = performance.now() + READY_WAIT_MS;
  while (parts.some((health) => health.readyReasons().length > 0) && performance.now() < deadlineMs) {
    await delay(READY_POLL_MS);
  }
}

const texts = (reasons: readonly string[]): string | undefined => reasons.join('; ') || undefined;

/** Returns the address at which a caller on this machine reaches the listener. */
function urlOf({ host, port }: { readonly host: string; readonly port: number }): string {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}
