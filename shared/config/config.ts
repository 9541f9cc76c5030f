import { existsSync, readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import type { z } from 'zod';
import { AppError, errorCode, errorMessage } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { databaseProblems, databaseUrlOf, kafkaProblems, type ServiceSettings } from './services.ts';
import type { Role, Setting } from './setting.ts';
import { SETTINGS, type SettingName } from './settings.ts';

/** Reads the settings from the environment. No other module reads process.env. */

export { ROLES, type Role, type Setting } from './setting.ts';
export * from './settings.ts';

/** The settings that all of these roles read. */
export type SettingOf<R extends Role> = {
  [Name in SettingName]: [R] extends [(typeof SETTINGS)[Name]['usedBy'][number]] ? Name : never;
}[SettingName];
/** Settings after validation, with their defaults. */
export type Config<Name extends SettingName = SettingName> = {
  readonly [Each in Name]: z.output<(typeof SETTINGS)[Each]['schema']>;
};

/** One setting that is wrong or missing. Never holds the value. */
export interface ConfigProblem {
  readonly name: SettingName;
  readonly problem: string;
  readonly example: string;
}

/** Thrown with all settings that are wrong; `message` has a line for each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const lines = problems.map(
      ({ name, problem, example }) => `  ${name} ${problem}, for example ${name}=${example}`,
    );
    super(`The settings cannot be used:\n${lines.join('\n')}`);
    this.problems = problems;
  }
}

/**
 * The source of the settings: the variables, and the names of the variables that the `.env` file
 * set.
 */
export interface Environment {
  readonly env: NodeJS.ProcessEnv;
  readonly fromFile: ReadonlySet<string>;
}

/**
 * Returns the environment of this process, with the additions of a `.env` file in the working
 * directory.
 */
export function environment(): NodeJS.ProcessEnv {
  return readEnvironment().env;
}

/**
 * Returns {@link environment}, and the names of the variables that the file set. Throws AppError
 * `ENV_FILE_UNREADABLE`.
 */
export function readEnvironment(): Environment {
  if (!existsSync('.env')) return { env: process.env, fromFile: new Set() };
  // Variables that are set already take precedence over the file.
  const names = Object.keys(parseEnv(readEnvFile()));
  const fromFile = new Set(names.filter((name) => process.env[name] === undefined));
  process.loadEnvFile('.env');
  return { env: process.env, fromFile };
}

function readEnvFile(): string {
  try {
    return readFileSync('.env', 'utf8');
  } catch (cause) {
    const reason = errorCode(cause) ?? errorMessage(cause);
    const message = `the file .env in the working directory cannot be read (${reason}): make it readable for this user, or start in another directory`;
    throw new AppError('ENV_FILE_UNREADABLE', message, { cause });
  }
}

/**
 * Removes PGSSLMODE, PGOPTIONS and all other variables of Postgres' clients from this process. The
 * driver applies them to every connection, but they are meant for another server than the embedded
 * one.
 */
export function ignorePostgresVariables(): void {
  for (const name of Object.keys(process.env)) if (name.startsWith('PG')) delete process.env[name];
}

/**
 * Reads the settings that a role uses. An empty variable counts as unset. Throws {@link
 * ConfigError} naming all problems.
 */
export function loadConfig<R extends Role>(
  env: Readonly<Record<string, string | undefined>>,
  role: R,
): Config<SettingOf<R>> {
  return loadSettings(env, role, settingsOf(role));
}

/** Reads these settings only, by the rules for the role. Ignores problems of all other settings. */
export function loadSettings<Name extends SettingName>(
  env: Readonly<Record<string, string | undefined>>,
  role: Role,
  names: readonly Name[],
): Config<Name> {
  const values: Record<string, unknown> = {};
  const problems = new Map<SettingName, string>();
  for (const name of names) {
    const { value, problem } = readSetting(env, role, name);
    if (problem === undefined) values[name] = value;
    else if (isIgnorable(name)) values[name] = readSetting({}, role, name).value;
    else problems.set(name, problem);
  }
  for (const { name, problem } of togetherProblems(values, names)) {
    if (!problems.has(name)) problems.set(name, problem);
  }
  if (problems.size > 0) throw new ConfigError(inOrder(problems));
  for (const name of ['DATABASE_URL', 'DATABASE_DIRECT_URL']) {
    if (values[name] !== undefined) values[name] = databaseUrlOf(values[name] as string, values);
  }
  return values as Config<Name>;
}

/**
 * Returns the problems of settings that a role replaces with their defaults, see {@link
 * Setting.ignorable}. They are not part of a {@link ConfigError}.
 */
export function ignoredSettings(
  env: Readonly<Record<string, string | undefined>>,
  role: Role,
): ConfigProblem[] {
  const problems = new Map<SettingName, string>();
  for (const name of settingsOf(role).filter(isIgnorable)) {
    const { problem } = readSetting(env, role, name);
    if (problem !== undefined) problems.set(name, problem);
  }
  return inOrder(problems);
}

/** Logs a warning for each of the {@link ignoredSettings}. */
export function warnOfIgnoredSettings(
  env: Readonly<Record<string, string | undefined>>,
  role: Role,
  logger: Logger,
): void {
  for (const { name, problem } of ignoredSettings(env, role)) {
    logger.warn({ setting: name, problem: `${name} ${problem}` }, 'setting ignored, its default is used');
  }
}

function isIgnorable(name: SettingName): boolean {
  const setting: Setting = SETTINGS[name];
  return setting.ignorable === true;
}

function inOrder(problems: ReadonlyMap<SettingName, string>): ConfigProblem[] {
  const names = Object.keys(SETTINGS) as SettingName[];
  return names.flatMap((name) => {
    const problem = problems.get(name);
    return problem === undefined ? [] : [{ name, problem, example: SETTINGS[name].example }];
  });
}

/** Returns the names of the settings that a role uses, in the order of {@link SETTINGS}. */
export function settingsOf<R extends Role>(role: R): SettingOf<R>[] {
  const names = Object.keys(SETTINGS) as SettingName[];
  return names.filter((name) => (SETTINGS[name] as Setting).usedBy.includes(role)) as SettingOf<R>[];
}

/**
 * Returns the problems of settings in combination. Checks Kafka's files only for callers that use
 * Kafka.
 */
function togetherProblems(settings: ServiceSettings, names: readonly SettingName[]) {
  return [
    ...(names.includes('DATABASE_URL') ? databaseProblems(settings) : []),
    ...(names.includes('KAFKA_BROKERS') ? kafkaProblems(settings) : []),
  ];
}

/**
 * Reads one setting for a role. Returns the setting's value (undefined if unset and without a
 * default), or the problem.
 */
export function readSetting(
  env: Readonly<Record<string, string | undefined>>,
  role: Role,
  name: SettingName,
): { readonly value?: unknown; readonly problem?: string } {
  const setting: Setting = SETTINGS[name];
  const result = setting.schema.safeParse(env[name] || defaultOf(name, role));
  if (!result.success) return { problem: result.error.issues[0]!.message };
  if (result.data === undefined && setting.requiredBy?.includes(role)) return { problem: 'is missing' };
  return { value: result.data };
}

/** Returns whether a setting's value must never be shown. */
export function isSecret(name: SettingName): boolean {
  const setting: Setting = SETTINGS[name];
  return setting.secret === true;
}

/** Returns the default of a setting as text; undefined if the setting has none. */
export function defaultOf(name: SettingName, role: Role): string | undefined {
  const setting: Setting = SETTINGS[name];
  if (role === 'embedded' && setting.embeddedDefault !== undefined) return setting.embeddedDefault;
  const standard = setting.schema.parse(undefined);
  return standard === undefined ? undefined : String(standard);
}
