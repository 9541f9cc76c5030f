import { systemClock } from '../shared/clock.ts';
import { ConfigError, loadConfig } from '../shared/config.ts';
import { AppError, errorMessage } from '../shared/errors.ts';
import { createUlidGenerator } from '../shared/ids.ts';
import { createKeyRing } from '../shared/keyring.ts';
import { createLogger } from '../shared/logging.ts';
import { checkSchema } from '../shared/postgres/migrate.ts';
import { createPool, type Pool } from '../shared/postgres/pool.ts';
import { isDatabaseUnavailable } from '../shared/postgres/unavailable.ts';
import { stopOnSignals } from '../shared/shutdown.ts';
import { parseAllowRules } from '../shared/webhooks/addresses.ts';
import { startAdmin } from './start.ts';

/** One admin process: settings, wiring, listening, draining. */
async function main(): Promise<void> {
  const config = loadConfig(process.env, 'admin');
  const logger = createLogger('admin', config.SLUICE_LOG_LEVEL);
  const allow = parseAllowRules(config.SLUICE_WEBHOOK_ALLOW ?? '');
  const keyRing = createKeyRing(config.SLUICE_CREDENTIALS_KEYS!);
  const pool = createPool({
    connectionString: config.DATABASE_URL!,
    max: config.SLUICE_DATABASE_CONNECTIONS,
    applicationName: 'sluice-admin',
    logger,
  });
  await refuseOtherSchema(pool);
  const admin = await startAdmin({
    pool,
    keyRing,
    clock: systemClock,
    nextId: createUlidGenerator(systemClock),
    logger,
    allow,
    host: config.ADMIN_HOST,
    port: config.ADMIN_PORT,
    drainDelayMs: config.SLUICE_DRAIN_DELAY_MS,
  });
  stopOnSignals({
    logger,
    graceMs: config.SLUICE_SHUTDOWN_GRACE_MS,
    async stop() {
      await admin.stop();
      await pool.end();
    },
  });
}

/** A schema that does not fit ends the start; a database that is down does not: readiness waits for it. */
async function refuseOtherSchema(pool: Pool): Promise<void> {
  try {
    await checkSchema(pool);
  } catch (error) {
    if (error instanceof AppError || !isDatabaseUnavailable(error)) throw error;
  }
}

main().catch((error) => {
  const text =
    error instanceof ConfigError ? error.message : `The admin listener cannot start: ${errorMessage(error)}`;
  process.stderr.write(`${text}\n`);
  process.exit(1);
});
