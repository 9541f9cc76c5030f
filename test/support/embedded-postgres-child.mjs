/**
 * Owns an embedded Postgres until a message stops this process or it is killed. Forked with a
 * channel and the data directory as its argument. Sends `{connectionString}`, or `{code, message}`
 * of the error.
 */
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../dist/embedded/postgres/postgres.js';

const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
try {
  const postgres = await startEmbeddedPostgres({
    dataDir: process.argv[2],
    logger,
    settings: { fsync: 'off' },
    onLost: (error) => process.send({ lost: error.code }),
  });
  process.once('message', async () => {
    await postgres.stop();
    process.disconnect();
  });
  process.send({ connectionString: postgres.connectionString });
} catch (error) {
  process.send({ code: error.code, message: error.message });
  process.disconnect();
}
