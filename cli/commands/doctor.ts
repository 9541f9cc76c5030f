import type { Command } from 'commander';
import type { Config, Role } from '../../shared/config/config.ts';
import { AppError } from '../../shared/errors.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import { openFilesLimit } from '../../shared/process/load-program.ts';
import type { CommandContext } from '../context.ts';
import { type OpenDatabase, openDatabase } from '../database.ts';
import { checking, type Finding, skipped } from '../doctor/finding.ts';
import { checkStoredKeys, findKeyRing } from '../doctor/keys.ts';
import { instanceListeners, type Listener, listenersOf } from '../doctor/listeners.ts';
import { checkDisk, checkNode, checkOpenFiles, checkSettings } from '../doctor/machine.ts';
import { checkNodes } from '../doctor/nodes.ts';
import { checkPort } from '../doctor/ports.ts';
import { checkDatabase, checkLog, checkNotifications } from '../doctor/services.ts';
import { type UsableSettings, usableSettings } from '../doctor/settings.ts';
import { JSON_OPTION } from '../options.ts';
import { openLog } from '../with-log.ts';

export function addDoctorCommand(program: Command, context: CommandContext): void {
  program
    .command('doctor')
    .description(
      'check Node, settings, open files, key ring, database, event log, clock, disk and ports, and print the next steps',
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice doctor')
    .action(async (options: { json?: boolean }) => {
      const findings = await examine(context);
      const problems = findings.filter(({ status }) => status === 'problem').length;
      if (options.json) context.printJson({ ok: problems === 0, findings });
      else context.print(...findings.flatMap(toLines));
      if (problems > 0)
        throw new AppError('NOT_WELL', `${problems} problem${problems === 1 ? '' : 's'} found`);
    });
}

function toLines({ check, status, found, advice }: Finding): string[] {
  const line = `${status.padEnd(8)} ${check}: ${found}`;
  return advice === undefined ? [line] : [line, `         → ${advice}`];
}

async function examine(context: CommandContext): Promise<Finding[]> {
  const { env } = context;
  const embedded = !env.DATABASE_URL && !env.KAFKA_BROKERS;
  const roles: [Role, ...Role[]] = embedded ? ['embedded', 'cli'] : ['gateway', 'worker', 'admin', 'cli'];
  const settings = usableSettings(env, roles);
  const { config } = settings;
  const { keyRing, finding } = await findKeyRing(config, embedded);
  const services = await examineServices(context, settings, keyRing);
  return [
    checkNode(process.version),
    ...checkSettings(settings.problems, roles),
    checkOpenFiles(openFilesLimit(), config),
    finding,
    ...services,
    ...(embedded ? await checkDisk(config.SLUICE_DATA_DIR) : []),
    ...(await Promise.all((await findListeners(config, embedded, services)).map(checkPort))),
  ];
}

/** Returns the listeners to check: those of the running instance, or those of the settings. */
async function findListeners(
  config: Config,
  embedded: boolean,
  services: readonly Finding[],
): Promise<readonly Listener[]> {
  if (!embedded) return listenersOf(config, { isRunning: true });
  const isRunning = services.some(({ check, status }) => check === 'database' && status === 'ok');
  const running = isRunning ? await instanceListeners(config.SLUICE_DATA_DIR) : undefined;
  // The embedded instance has no separate listener for workers.
  return running ?? listenersOf(config, { isRunning }).filter(({ setting }) => setting !== 'WORKER_PORT');
}

async function examineServices(
  context: CommandContext,
  { config, databaseKnown, kafkaKnown }: UsableSettings,
  keyRing: KeyRing | undefined,
): Promise<readonly Finding[]> {
  const unreached = skipped('event log', 'not checked without the database');
  if (!databaseKnown) return [skipped('database', 'not checked: its settings are wrong'), unreached];
  const advice =
    config.DATABASE_URL === undefined
      ? 'run `npm start`, or correct the setting'
      : 'correct the setting, or start the database';
  const found = await checking('database', advice, async () => {
    const database = await openDatabase(config, context.logger);
    try {
      return [
        ...(await examineDatabase(context, database, keyRing, config)),
        ...(kafkaKnown
          ? await examineLog(context, database, config)
          : [skipped('event log', 'not checked: its settings are wrong')]),
      ];
    } finally {
      await database.pool.end();
    }
  });
  return found.some(({ check }) => check === 'event log') ? found : [...found, unreached];
}

async function examineDatabase(
  { clock }: CommandContext,
  { pool, embedded }: OpenDatabase,
  keyRing: KeyRing | undefined,
  config: Config,
): Promise<readonly Finding[]> {
  const found = await checkDatabase(pool, clock);
  const isUnfit = found.some(({ check, status }) => status === 'problem' && check === 'database');
  const usable = !found.some(({ check, status }) => status === 'problem' && check !== 'clock');
  return [
    ...found,
    ...(embedded || !usable ? [] : await checkNotifications({ pool, directUrl: config.DATABASE_DIRECT_URL })),
    ...(embedded || isUnfit ? [] : await checkNodes(pool, usable)),
    ...(usable && keyRing ? await checkStoredKeys(pool, keyRing) : []),
  ];
}

async function examineLog(
  context: CommandContext,
  database: OpenDatabase,
  config: Config,
): Promise<readonly Finding[]> {
  return await checking('event log', 'set KAFKA_BROKERS', async () => {
    const log = await openLog(context, database, config);
    try {
      return await checkLog(database.pool, log, config.SLUICE_TOPIC_PREFIX);
    } finally {
      await log.close();
    }
  });
}
