import type { Command } from 'commander';
import { type Config, type Role, readSetting, SETTINGS, type SettingName } from '../../shared/config.ts';
import { AppError } from '../../shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { openDatabase } from '../database.ts';
import { checking, type Finding, skipped } from '../doctor/finding.ts';
import {
  checkDisk,
  checkKeyRing,
  checkNode,
  checkPort,
  checkSettings,
  type Listener,
} from '../doctor/machine.ts';
import { checkDatabase, checkLog } from '../doctor/services.ts';
import { JSON_OPTION } from '../options.ts';
import { openLog } from './topics.ts';

export function addDoctorCommand(program: Command, context: CommandContext): void {
  program
    .command('doctor')
    .description(
      'check Node, settings, key ring, database, event log, clock, disk and ports, and say what to do',
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice doctor')
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
  const roles: Role[] = embedded ? ['embedded'] : ['gateway', 'worker', 'admin'];
  const config = readableConfig(env, roles[0]!);
  const listeners: Listener[] = [
    { setting: 'PORT', host: config.HOST, port: config.PORT },
    { setting: 'ADMIN_PORT', host: config.ADMIN_HOST, port: config.ADMIN_PORT },
    // There is no listener of the workers' own in the one process.
    ...(embedded
      ? []
      : [{ setting: 'WORKER_PORT' as const, host: config.WORKER_HOST, port: config.WORKER_PORT }]),
  ];
  return [
    checkNode(process.version),
    ...checkSettings(env, roles),
    await checkKeyRing(config, embedded),
    ...(await examineServices(context, config)),
    ...(embedded ? await checkDisk(config.SLUICE_DATA_DIR) : []),
    ...(await Promise.all(listeners.map(checkPort))),
  ];
}

async function examineServices(context: CommandContext, config: Config): Promise<readonly Finding[]> {
  const unreached = skipped('event log', 'not asked without the database');
  const advice = 'start it, or correct the setting';
  return await checking('database', advice, async () => {
    const database = await openDatabase(config, context.logger);
    try {
      const found = await checkDatabase(database.pool, context.clock);
      const log = await checking('event log', 'set KAFKA_BROKERS', async () => {
        const opened = openLog(context, database, config);
        try {
          return await checkLog(database.pool, opened, config.SLUICE_TOPIC_PREFIX);
        } finally {
          await opened.close();
        }
      });
      return [...found, ...log];
    } finally {
      await database.pool.end();
    }
  }).then((findings) =>
    findings.some(({ check }) => check === 'event log') ? findings : [...findings, unreached],
  );
}

/** The settings as far as they can be used: what is wrong is reported, and counts as unset for the other checks. */
function readableConfig(env: CommandContext['env'], role: Role): Config {
  const values = (Object.keys(SETTINGS) as SettingName[]).map((name) => {
    const { value, problem } = readSetting(env, role, name);
    return [name, problem === undefined ? value : readSetting({}, role, name).value];
  });
  return Object.fromEntries(values) as Config;
}
