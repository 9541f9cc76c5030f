import {
  type Config,
  ConfigError,
  type ConfigProblem,
  DATABASE_SETTINGS,
  ignoredSettings,
  KAFKA_SETTINGS,
  loadConfig,
  loadSettings,
  type Role,
  readSetting,
  SETTINGS,
  type SettingName,
} from '../../shared/config/config.ts';

type Env = Readonly<Record<string, string | undefined>>;

/** The valid settings, and the problems of the invalid settings. */
export interface UsableSettings {
  /** The settings, with the default in place of each wrong setting. */
  readonly config: Config;
  /** One problem per setting that is wrong for any of the roles. */
  readonly problems: readonly ConfigProblem[];
  /** Whether the settings of the service are valid. */
  readonly databaseKnown: boolean;
  readonly kafkaKnown: boolean;
}

/** Reads all settings with the defaults of the first role. */
export function usableSettings(env: Env, roles: readonly [Role, ...Role[]]): UsableSettings {
  const problems = new Map(
    roles.flatMap((role) => problemsOf(env, role)).map((found) => [found.name, found]),
  );
  const isWrong = (name: SettingName) => problems.has(name);
  const databaseKnown = !DATABASE_SETTINGS.some(isWrong);
  const kafkaKnown = !KAFKA_SETTINGS.some(isWrong);
  // If one setting of a service is wrong, all settings of that service keep their defaults.
  const left: readonly SettingName[] = [
    ...(databaseKnown ? [] : DATABASE_SETTINGS),
    ...(kafkaKnown ? [] : KAFKA_SETTINGS),
  ];
  const names = Object.keys(SETTINGS) as SettingName[];
  const usable = names.filter((name) => !isWrong(name) && !left.includes(name));
  const others = names.filter((name) => !usable.includes(name));
  const unset = others.map((name) => [name, readSetting({}, roles[0], name).value]);
  const config = { ...Object.fromEntries(unset), ...loadSettings(env, roles[0], usable) } as Config;
  return { config, problems: [...problems.values()], databaseKnown, kafkaKnown };
}

function problemsOf(env: Env, role: Role): readonly ConfigProblem[] {
  const ignored = ignoredSettings(env, role);
  try {
    loadConfig(env, role);
    return ignored;
  } catch (error) {
    if (error instanceof ConfigError) return [...error.problems, ...ignored];
    throw error;
  }
}
