import {
  environment,
  ignorePostgresVariables,
  loadConfig,
  warnOfIgnoredSettings,
} from '../shared/config/config.ts';
import { AppError } from '../shared/errors.ts';
import { createLogger } from '../shared/logging.ts';
import { runMain } from '../shared/process/main.ts';
import { openOutput } from '../shared/process/output.ts';
import { stopOnSignals } from '../shared/process/shutdown.ts';
import { startTracing, stopTracing } from '../shared/tracing/tracer.ts';
import { greeting } from './greeting.ts';
import { startInstance } from './instance.ts';

/** Runs `npm start`: the whole product in one process, with its own Postgres. */
await runMain('Sluice', async () => {
  const env = environment();
  refuseOwnServices(env);
  ignorePostgresVariables();
  const config = loadConfig(env, 'embedded');
  refuseProcesses(config.SLUICE_PROCESSES);
  const output = openOutput();
  const logger = createLogger('sluice', config.SLUICE_LOG_LEVEL, output);
  warnOfIgnoredSettings(env, 'embedded', logger);
  await startTracing(env, { service: 'sluice', messagingSystem: 'sluice', logger });
  output.write('Starting Postgres and Sluice (the first start takes a few seconds) …\n');
  const starting = startInstance(config, logger);
  stopOnSignals({
    logger,
    output,
    graceMs: config.SLUICE_SHUTDOWN_GRACE_MS,
    async stop() {
      output.write('\nStopping …\n');
      // Also stops an instance that is still starting, so that Postgres does not keep running.
      await (await starting).stop();
      await stopTracing();
      output.write('Stopped; `npm start` continues with the same data and key.\n');
    },
  });
  const instance = await starting;
  output.write(greeting(instance));
});

/**
 * Throws if external services are configured: CLI commands would use those services and not the
 * database of this process.
 */
function refuseOwnServices(env: ReturnType<typeof environment>): void {
  const set = (['DATABASE_URL', 'KAFKA_BROKERS'] as const).filter((name) => env[name]);
  if (set.length === 0) return;
  throw new AppError(
    'OWN_SERVICES_CONFIGURED',
    `\`npm start\` runs services of its own, but ${set.join(' and ')} ${set.length === 1 ? 'is set: unset it' : 'are set: unset them'}, ` +
      'or run the parts on yours with `npm run start:gateway`, `start:worker` and `start:admin`',
  );
}

function refuseProcesses(processes: number): void {
  if (processes === 1) return;
  throw new AppError(
    'PROCESSES_CONFIGURED',
    `SLUICE_PROCESSES is ${processes}, but \`npm start\` is one process, because its event log is embedded: unset it, ` +
      'or run gateways on your own Kafka with `npm run start:gateway`',
  );
}
