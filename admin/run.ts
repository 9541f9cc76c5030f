import { systemClock } from '../shared/clock.ts';
import { reportCertificates } from '../shared/config/certificate-metrics.ts';
import { environment, loadConfig } from '../shared/config/config.ts';
import { createUlidGenerator } from '../shared/ids.ts';
import { createKeyRing } from '../shared/keyring/keyring.ts';
import { createLogger } from '../shared/logging.ts';
import { startDefaultMetrics } from '../shared/metrics/default-metrics.ts';
import { PART_NAMES } from '../shared/postgres/client.ts';
import { createPool } from '../shared/postgres/pool.ts';
import { reportPool } from '../shared/postgres/pool-metrics.ts';
import { requireSchema } from '../shared/postgres/require-schema.ts';
import { cannotStart, runMain } from '../shared/process/main.ts';
import { openOutput } from '../shared/process/output.ts';
import { stopOnSignals } from '../shared/process/shutdown.ts';
import { startTracing, stopTracing } from '../shared/tracing/tracer.ts';
import { startAdmin } from './start.ts';

const NAME = 'The admin listener';

/** Runs one admin process: reads the settings, starts the listener, and drains it on shutdown. */
async function main(): Promise<void> {
  const env = environment();
  const config = loadConfig(env, 'admin');
  const output = openOutput();
  const logger = createLogger('admin', config.SLUICE_LOG_LEVEL, output);
  await startTracing(env, { service: 'sluice-admin', messagingSystem: 'kafka', logger });
  const allow = config.SLUICE_WEBHOOK_ALLOW ?? [];
  const keyRing = createKeyRing(config.SLUICE_CREDENTIALS_KEYS!);
  const pool = createPool({
    connectionString: config.DATABASE_URL!,
    max: config.SLUICE_DATABASE_CONNECTIONS,
    applicationName: PART_NAMES.admin,
    logger,
  });
  await requireSchema({ pool, logger, keyRing, onUnfit: (error) => cannotStart(NAME, error) });
  startDefaultMetrics('admin');
  reportCertificates(config);
  reportPool('admin', pool);
  const admin = await startAdmin({
    pool,
    keyRing,
    clock: systemClock,
    nextId: createUlidGenerator(systemClock),
    logger,
    allow,
    topicPrefix: config.SLUICE_TOPIC_PREFIX,
    endpointsMax: config.SLUICE_WEBHOOK_ENDPOINTS_MAX,
    host: config.ADMIN_HOST,
    port: config.ADMIN_PORT,
    requestsPerSecond: config.SLUICE_ADMIN_RATE,
    keysPerDayMax: config.SLUICE_KEYS_PER_DAY,
    origins: config.SLUICE_ADMIN_ORIGINS ?? [],
    drainDelayMs: config.SLUICE_DRAIN_DELAY_MS,
    keepAliveMs: config.SLUICE_KEEP_ALIVE_MS,
  });
  stopOnSignals({
    logger,
    output,
    graceMs: config.SLUICE_SHUTDOWN_GRACE_MS,
    async stop() {
      await admin.stop();
      await pool.end();
      await stopTracing();
    },
  });
}

await runMain(NAME, main);
