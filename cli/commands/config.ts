import { type Command, Option } from 'commander';
import {
  ConfigError,
  type ConfigProblem,
  defaultOf,
  ignoredSettings,
  isSecret,
  ROLES,
  type Role,
  readSetting,
  SETTINGS,
  type SettingName,
  settingsOf,
} from '../../shared/config/config.ts';
import { AppError } from '../../shared/errors.ts';
import { readTraceSettings } from '../../shared/tracing/settings.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';

/** A problem of a setting for one role. */
interface RoleProblem extends ConfigProblem {
  readonly role: Role;
}

/** A setting that cannot be used, without which the process starts nevertheless. */
interface SettingWarning {
  readonly setting: string;
  readonly problem: string;
  /** What the process does instead, as it logs it at its start. */
  readonly message: string;
}

export function addConfigCommands(program: Command, context: CommandContext): void {
  const config = program.command('config').description('settings');
  addShow(config, context);
  config
    .command('check')
    .description('check the settings without starting anything')
    .addOption(
      new Option(
        '--role <role>',
        'the process to check for (default: all processes used here, and cli)',
      ).choices(ROLES),
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice config check --role gateway')
    .action((options: { role?: Role; json?: boolean }) => {
      const roles = options.role ? [options.role] : rolesToCheck(context);
      const problems = roles.flatMap((role) =>
        problemsOf(context, role).map((problem) => ({ role, ...problem })),
      );
      const warnings = warningsOf(context, roles);
      const unknown = unknownNames(context);
      if (options.json) context.printJson({ ok: problems.length === 0, roles, problems, warnings, unknown });
      else printCheck(context, roles, { problems, warnings, unknown });
      if (problems.length > 0) {
        const count = new Set(problems.map(({ name }) => name)).size;
        const settings = count === 1 ? '1 setting is' : `${count} settings are`;
        throw new AppError('CONFIG_INVALID', `${settings} missing or wrong`);
      }
    });
}

interface Checked {
  readonly problems: readonly RoleProblem[];
  readonly warnings: readonly SettingWarning[];
  /** Variables that look like settings but are none. */
  readonly unknown: readonly string[];
}

function printCheck(
  context: CommandContext,
  roles: readonly Role[],
  { problems, warnings, unknown }: Checked,
): void {
  if (problems.length === 0) context.print(`The settings are valid for: ${roles.join(', ')}`);
  else context.printTable(['role', 'setting', 'problem', 'example'], rowsOf(problems));
  for (const { setting, problem, message } of warnings) {
    context.print(`${setting} ${problem} (${message}).`);
  }
  for (const name of unknown) {
    context.print(`${name} is no setting, so it has no effect. \`./sluice config show\` lists all settings.`);
  }
}

/** The lines that processes log about such settings. */
const SETTING_IGNORED = 'setting ignored, its default is used';
const TRACE_SETTING_UNUSABLE = 'trace setting cannot be used';

/** Returns the warnings that the processes would log at their start, one per setting. */
function warningsOf({ env }: CommandContext, roles: readonly Role[]): SettingWarning[] {
  const warnings = new Map<string, SettingWarning>();
  for (const { name: setting, problem } of roles.flatMap((role) => ignoredSettings(env, role))) {
    warnings.set(setting, { setting, problem, message: SETTING_IGNORED });
  }
  // Commands export no traces.
  if (roles.some((role) => role !== 'cli')) {
    readTraceSettings(env, (setting, problem) => {
      if (!warnings.has(setting))
        warnings.set(setting, { setting, problem, message: TRACE_SETTING_UNUSABLE });
    });
  }
  return [...warnings.values()];
}

/** Returns the variables that look like settings but are none, such as misspelled ones. */
function unknownNames({ env }: CommandContext): string[] {
  return Object.keys(env).filter((name) => name.startsWith('SLUICE_') && !(name in SETTINGS));
}

/** Returns one row per problem, with all roles that have the problem. */
function rowsOf(problems: readonly RoleProblem[]): string[][] {
  const rows = new Map<string, { roles: Role[]; found: ConfigProblem }>();
  for (const { role, ...found } of problems) {
    const key = `${found.name} ${found.problem}`;
    rows.set(key, { found, roles: [...(rows.get(key)?.roles ?? []), role] });
  }
  return [...rows.values()].map(({ roles, found: { name, problem, example } }) => [
    roles.join(', '),
    name,
    problem,
    example,
  ]);
}

function addShow(config: Command, context: CommandContext): void {
  config
    .command('show')
    .description('show the value and the source of every setting; secrets are masked')
    .addOption(
      new Option('--role <role>', 'the process whose defaults are shown')
        .choices(ROLES)
        .default(undefined, 'gateway, or embedded without DATABASE_URL and KAFKA_BROKERS'),
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice config show --role worker')
    .action((options: { role?: Role; json?: boolean }) => {
      const role = options.role ?? rolesToCheck(context)[0]!;
      const settings = (Object.keys(SETTINGS) as SettingName[]).map((name) =>
        shownSetting(context, role, name),
      );
      if (options.json) return context.printJson({ role, settings });
      context.printTable(
        ['setting', 'value', 'from', 'problem'],
        settings.map(({ name, value, from, problem }) => [name, value ?? '', from, problem ?? '']),
      );
    });
}

interface ShownSetting {
  readonly name: SettingName;
  readonly value: string | null;
  readonly from: 'environment' | '.env file' | 'default' | 'not set';
  readonly problem: string | null;
}

function shownSetting(context: CommandContext, role: Role, name: SettingName): ShownSetting {
  const given = context.env[name];
  const { problem } = readSetting(context.env, role, name);
  const text = given || defaultOf(name, role);
  // The value of an invalid setting is not shown: it may be a secret in the wrong place.
  const shown = problem === undefined && text !== undefined ? masked(name, text) : null;
  const standard = text === undefined ? 'not set' : 'default';
  const from = !given ? standard : context.envFromFile.has(name) ? '.env file' : 'environment';
  return { name, value: shown, from, problem: problem ?? null };
}

const MASK = '********';

/**
 * Masks passwords. The ids of the keys in a key ring stay visible, since ids are not secret and
 * identify the ring.
 */
function masked(name: SettingName, text: string): string {
  if (name === 'SLUICE_CREDENTIALS_KEYS') return text.replace(/:[^,]*/g, `:${MASK}`);
  if (isSecret(name)) return MASK;
  // Masks passwords in a URL: `user:password@`, and parameters.
  return text
    .replace(/^([a-z][a-z0-9+.-]*:\/\/[^:@/?#]*):.*@/i, `$1:${MASK}@`)
    .replace(/([?&][a-z_-]*(?:password|secret|token)[a-z_-]*=)[^&#]*/gi, `$1${MASK}`);
}

/**
 * Returns the roles of separate processes if services are configured, otherwise that of `npm
 * start`.
 */
function rolesToCheck(context: CommandContext): Role[] {
  const own = context.env.DATABASE_URL || context.env.KAFKA_BROKERS;
  return own ? ['gateway', 'worker', 'admin', 'cli'] : ['embedded', 'cli'];
}

function problemsOf(context: CommandContext, role: Role): readonly ConfigProblem[] {
  try {
    context.config(settingsOf(role), role);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}
