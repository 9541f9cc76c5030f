import { setFlagsFromString } from 'node:v8';
import { environment, loadConfig } from '../shared/config/config.ts';
import { AppError } from '../shared/errors.ts';
import { createLogger } from '../shared/logging.ts';
import { runMain } from '../shared/process/main.ts';
import { openOutput } from '../shared/process/output.ts';
import { stopOnSignals } from '../shared/process/shutdown.ts';
import { greeting } from './greeting.ts';
import { startInstance } from './instance.ts';

/**
 * All of the heap is collected once it has grown by so many per cent of what was in use. V8's own choice for the some 30 MB that
 * are in use here is a few MB, which a tenant's flood brings in a few seconds; each collection keeps both cores of a small
 * machine busy for 60 to 100 ms, and everybody's requests, as there is one process, wait for it.
 */
const HEAP_GROWTH_PERCENT = 400;

/** `npm start`: the whole product in one process, on a Postgres of its own. */
await runMain('Sluice', async () => {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`);
  const env = environment();
  refuseOwnServices(env);
  const config = loadConfig(env, 'embedded');
  const output = openOutput();
  const logger = createLogger('sluice', config.SLUICE_LOG_LEVEL, output);
  output.write('Starting Postgres and the rest (the first start takes a few seconds) …\n');
  const starting = startInstance(config, logger);
  stopOnSignals({
    logger,
    output,
    graceMs: config.SLUICE_SHUTDOWN_GRACE_MS,
    async stop() {
      output.write('\nStopping …\n');
      // Also in the middle of a start: a Postgres that is half made is not left behind.
      await (await starting).stop();
      output.write('Stopped; `npm start` goes on with the same data and key.\n');
    },
  });
  const instance = await starting;
  output.write(greeting(instance));
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
