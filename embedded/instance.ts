import { setTimeout as delay } from 'node:timers/promises';
import { startAdmin } from '../admin/start.ts';
import { startGateway } from '../gateway/start.ts';
import { systemClock } from '../shared/clock.ts';
import type { Config, SettingOf } from '../shared/config/config.ts';
import type { Demo } from '../shared/demo-file.ts';
import { createHealth, type Health } from '../shared/http/health.ts';
import { createUlidGenerator } from '../shared/ids.ts';
import { createKeyRing } from '../shared/keyring/keyring.ts';
import { createEmbeddedLog } from '../shared/log/embedded/embedded-log.ts';
import type { Logger } from '../shared/logging.ts';
import { migrate } from '../shared/postgres/migrate.ts';
import { createPool } from '../shared/postgres/pool.ts';
import { requireKeys } from '../shared/postgres/require-keys.ts';
import { registerTopics, TOPIC_RETENTION_MS, topicSpecs } from '../shared/postgres/topics.ts';
import { startWorkers } from '../workers/start.ts';
import { startWebhooks } from '../workers/webhooks/start.ts';
import { ensureCredentialsKey } from './credentials-key.ts';
import { ensureDemoKey, writeDemo } from './demo.ts';
import { startEmbeddedPostgres } from './postgres/postgres.ts';

export interface Instance {
  readonly demo: Demo;
  /** Whether this start made its key. */
  readonly demoIsNew: boolean;
  /** Where the demo is written, and where its request headers are. */
  readonly demoFile: string;
  readonly headersFile: string;
  /** What is stored and the key ring cannot read, a sentence each. */
  readonly keyProblems: readonly string[];
  /** Drains the listeners, finishes the workers' batches, stops Postgres. */
  stop(): Promise<void>;
}

/** One process reads them all: fuller batches cost it less than parallel ones, and tenants share fewer partitions. */
const TENANT_PARTITIONS = 1;
const TOPIC_COUNTS = { partitions: 12, replicas: 1 };
const HOUR_MS = 3_600_000;
/**
 * Connections of the admin listener's own, so that its requests never wait for those of the gateway and the workers, nor these
 * for them: two steps of erasures, a look-up of keys, and some requests.
 */
const ADMIN_CONNECTIONS = 6;
/** Past it the start goes on; `/health/ready` tells what is wrong. */
const READY_WAIT_MS = 10_000;
const READY_POLL_MS = 20;

/**
 * Wires all parts in this process and resolves once they are ready to take requests. What was started is stopped again
 * when a later part cannot start. Rejects with the AppErrors of the parts.
 */
export async function startInstance(
  config: Config<SettingOf<'embedded'>>,
  logger: Logger,
): Promise<Instance> {
  const stops: (() => Promise<void>)[] = [];
  const stop = async () => {
    for (const stopPart of stops.splice(0).reverse()) await stopPart();
  };
  try {
    return { ...(await start(config, logger, (stopPart) => stops.push(stopPart))), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(
  config: Config<SettingOf<'embedded'>>,
  logger: Logger,
  onStop: (stopPart: () => Promise<void>) => void,
): Promise<Omit<Instance, 'stop'>> {
  const clock = systemClock;
  const nextId = createUlidGenerator(clock);
  const dataDir = config.SLUICE_DATA_DIR;
  const allow = config.SLUICE_WEBHOOK_ALLOW ?? [];
  const postgres = await startEmbeddedPostgres({
    dataDir,
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
  });
  onStop(() => pool.end());
  const log = createEmbeddedLog({ pool, clock, logger });
  onStop(() => log.close());
  const specs = topicSpecs(config.SLUICE_TOPIC_PREFIX, TOPIC_COUNTS);
  await log.createTopics(specs);
  // Topics of an earlier release keep the number of partitions that they were made with.
  const counts = await log.partitionCounts(specs.map((spec) => spec.topic));
  const topics = [...counts].map(([topic, partitions]) => ({ topic, partitions }));
  await registerTopics(pool, topics, { tenantPartitions: TENANT_PARTITIONS, clock });
  const ofSettings = config.SLUICE_CREDENTIALS_KEYS;
  const keyRing = ofSettings === undefined ? await ensureCredentialsKey(dataDir) : createKeyRing(ofSettings);
  const keyProblems = await requireKeys(pool, keyRing);
  const { key, isNew: demoIsNew } = await ensureDemoKey(pool, dataDir, { clock, nextId });

  const health = createHealth();
  const shared = { pool, log, keyRing, clock, nextId, logger };
  const workers = startWorkers({
    ...shared,
    health,
    prefix: config.SLUICE_TOPIC_PREFIX,
    credentialsTtlMs: config.SLUICE_CREDENTIALS_TTL_HOURS * HOUR_MS,
    topicRetentionMs: TOPIC_RETENTION_MS,
  });
  onStop(() => workers.close());
  const webhooks = startWebhooks({ ...shared, health, allow });
  onStop(() => webhooks.close());
  const adminPool = createPool({
    connectionString,
    max: ADMIN_CONNECTIONS,
    applicationName: 'sluice-admin',
    logger,
  });
  onStop(() => adminPool.end());
  const admin = await startAdmin({
    ...shared,
    pool: adminPool,
    allow,
    requestsPerSecond: config.SLUICE_ADMIN_RATE,
    keysPerDayMax: config.SLUICE_KEYS_PER_DAY,
    endpointsMax: config.SLUICE_WEBHOOK_ENDPOINTS_MAX,
    host: config.ADMIN_HOST,
    port: config.ADMIN_PORT,
    drainDelayMs: config.SLUICE_DRAIN_DELAY_MS,
    keepAliveMs: config.SLUICE_KEEP_ALIVE_MS,
  });
  onStop(() => admin.stop());
  // There is no listener of the workers' own in the one process.
  admin.health.watchReady('workers', () => texts(health.readyReasons()));
  admin.health.watchLive('workers', () => texts(health.liveReasons()));
  admin.health.watchNote('workers', () => texts(health.notes()));
  const gateway = await startGateway({
    ...shared,
    topicPrefix: config.SLUICE_TOPIC_PREFIX,
    host: config.HOST,
    port: config.PORT,
    publishDeadlineMs: config.SLUICE_PUBLISH_DEADLINE_MS,
    publishBufferBytesMax: config.SLUICE_PUBLISH_BUFFER_BYTES,
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
  // The gateway's own health check is public and gives names only.
  admin.health.watchNote('gateway', () => texts(gateway.health.readyReasons()));
  admin.health.watchNote('gateway notes', () => texts(gateway.health.notes()));
  // Who waits for readiness finds the file with the key.
  gateway.health.setReady('start', 'is not finished');
  const demo = { baseUrl: urlOf(gateway), adminUrl: urlOf(admin), ...key };
  const files = await writeDemo(dataDir, demo);
  gateway.health.setReady('start', undefined);
  await untilReady([gateway.health, admin.health]);
  return { demo, demoIsNew, ...files, keyProblems };
}

/** The first request after the start must not meet a part that has not been reached yet. */
async function untilReady(parts: readonly Health[]): Promise<void> {
  const deadlineMs = performance.now() + READY_WAIT_MS;
  while (parts.some((health) => health.readyReasons().length > 0) && performance.now() < deadlineMs) {
    await delay(READY_POLL_MS);
  }
}

const texts = (reasons: readonly string[]): string | undefined => reasons.join('; ') || undefined;

/** Where a caller on this machine reaches the listener. */
function urlOf({ host, port }: { readonly host: string; readonly port: number }): string {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}
