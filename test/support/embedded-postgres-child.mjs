/**
 * A process that owns an embedded Postgres until it is stopped by a message or killed. Forked with a channel and the data
 * directory as its argument; sends `{connectionString}`, or `{code, message}` of the error.
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
