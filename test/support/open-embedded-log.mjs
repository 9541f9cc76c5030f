/** Opens the embedded log in a child process. */
import { pino } from 'pino';
import { systemClock } from '../../dist/shared/clock.js';
import { createEmbeddedLog } from '../../dist/shared/log/embedded/embedded-log.js';
import { createPool } from '../../dist/shared/postgres/pool.js';

export async function openLog({ connectionString }) {
  const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
  const pool = createPool({ connectionString, max: 5, applicationName: 'sluice-test-child', logger });
  const log = createEmbeddedLog({ pool, clock: systemClock, logger });
  const close = async () => {
    await log.close();
    await pool.end();
  };
  return { log, close };
}
