import { environment, loadConfig } from '../shared/config.ts';
import { AppError } from '../shared/errors.ts';
import { createLogger } from '../shared/logging.ts';
import { runMain } from '../shared/main.ts';
import { stopOnSignals } from '../shared/shutdown.ts';
import { greeting } from './greeting.ts';
import { startInstance } from './instance.ts';

/** `npm start`: the whole product in one process, on a Postgres of its own. */
await runMain('Sluice', async () => {
  const env = environment();
  refuseOwnServices(env);
  const config = loadConfig(env, 'embedded');
  const logger = createLogger('sluice', config.SLUICE_LOG_LEVEL);
  process.stdout.write('Starting Postgres and the rest (the first start takes a few seconds) …\n');
  const starting = startInstance(config, logger);
  stopOnSignals({
    logger,
    graceMs: config.SLUICE_SHUTDOWN_GRACE_MS,
    async stop() {
      process.stdout.write('\nStopping …\n');
      // Also in the middle of a start: a Postgres that is half made is not left behind.
      await (await starting).stop();
      process.stdout.write('Stopped; `npm start` goes on with the same data and key.\n');
    },
  });
  const instance = await starting;
  process.stdout.write(greeting(instance));
});

/** Otherwise the command would look at another database than the one that this process fills. */
function refuseOwnServices(env: ReturnType<typeof environment>): void {
  const set = (['DATABASE_URL', 'KAFKA_BROKERS'] as const).filter((name) => env[name]);
  if (set.length === 0) return;
  throw new AppError(
    'OWN_SERVICES_CONFIGURED',
    `\`npm start\` runs services of its own, but ${set.join(' and ')} ${set.length === 1 ? 'is set: unset it' : 'are set: unset them'}, ` +
      'or run the parts on yours with `npm run start:gateway`, `start:worker` and `start:admin`',
  );
}
