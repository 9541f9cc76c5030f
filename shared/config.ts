import { existsSync, readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { databaseProblems, databaseUrlOf, kafkaProblems, type ServiceSettings } from './config-services.ts';
import { parseAllowRules } from './webhooks/addresses.ts';

/**
 * All settings, read from the environment by one schema. Nothing else looks at process.env. The text of each setting
 * is what an operator reads when it is wrong; its example is what `.env.example` shows.
 */

/** What kind of process asks: each needs other settings. Only webhooks need the keys. */
export const ROLES = ['embedded', 'gateway', 'worker', 'worker-without-webhooks', 'admin', 'cli'] as const;
export type Role = (typeof ROLES)[number];

interface Setting {
  readonly schema: z.ZodType;
  /** Roles that cannot start without it. */
  readonly requiredBy?: readonly Role[];
  readonly meaning: string;
  readonly example: string;
  /** Whether its value must never be shown. */
  readonly secret?: true;
}

const port = (standard: number) => wholeNumber(0, 65_535).default(standard);
const milliseconds = (standard: number) => wholeNumber(0, 86_400_000).default(standard);

/** Every setting by its name. The order is that of `.env.example`. */
export const SETTINGS = {
  DATABASE_URL: {
    schema: z
      .string()
      .regex(/^postgres(ql)?:\/\/\S+$/, { error: 'must be a postgres:// URL' })
      .optional(),
    requiredBy: ['gateway', 'worker', 'worker-without-webhooks', 'admin'],
    meaning:
      'Your own Postgres, 15 or later; sslmode (disable, verify-full, no-verify) and sslrootcert may be part of it. `npm start` runs one of its own instead.',
    example: 'postgres://sluice:password@localhost:5432/sluice',
  },
  DATABASE_TLS_CA: {
    schema: z.string().min(1).optional(),
    meaning:
      'File with the certificates (PEM) that the server of DATABASE_URL is verified by, its name included, as sslmode=verify-full does. Without it those that Node knows are used, where sslmode asks for TLS.',
    example: '/etc/sluice/postgres-ca.pem',
  },
  KAFKA_BROKERS: {
    schema: z
      .string()
      .transform((text) => text.split(',').map((broker) => broker.trim()))
      .refine(
        (brokers) => brokers.every((broker) => /^[^\s:,]+:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$/.test(broker)),
        {
          error: 'must be host:port, several separated by commas',
        },
      )
      .optional(),
    requiredBy: ['gateway', 'worker', 'worker-without-webhooks'],
    meaning:
      'Your own Kafka: brokers to begin with. `npm start` keeps the event log in its Postgres instead.',
    example: 'localhost:9092',
  },
  KAFKA_SASL_MECHANISM: {
    schema: z
      .string()
      .transform((text) => text.toLowerCase())
      .pipe(
        z.enum(['plain', 'scram-sha-256', 'scram-sha-512'], {
          error: 'must be one of plain, scram-sha-256, scram-sha-512',
        }),
      )
      .optional(),
    meaning:
      'How Kafka checks the user and the password: plain, scram-sha-256 or scram-sha-512. Unset: it does not. With plain the password travels as it is, so use it with KAFKA_TLS=on.',
    example: 'scram-sha-512',
  },
  KAFKA_SASL_USERNAME: {
    schema: z.string().min(1).optional(),
    meaning: 'User at Kafka, for KAFKA_SASL_MECHANISM.',
    example: 'sluice',
  },
  KAFKA_SASL_PASSWORD: {
    schema: z.string().min(1).optional(),
    meaning: "That user's password.",
    example: 'THE_PASSWORD',
  },
  KAFKA_TLS: {
    schema: z.enum(['on', 'off'], { error: 'must be on or off' }).default('off'),
    meaning: "Whether Kafka is reached by TLS; the brokers' certificates and names are then verified.",
    example: 'on',
  },
  KAFKA_TLS_CA: {
    schema: z.string().min(1).optional(),
    meaning: 'File with the certificates (PEM) that brokers are verified by. Unset: those that Node knows.',
    example: '/etc/sluice/kafka-ca.pem',
  },
  KAFKA_TLS_CERT: {
    schema: z.string().min(1).optional(),
    meaning: 'File with the certificate (PEM) that is shown to brokers which ask for one.',
    example: '/etc/sluice/kafka-client.pem',
  },
  KAFKA_TLS_KEY: {
    schema: z.string().min(1).optional(),
    meaning: 'File with the private key (PEM, without a passphrase) of KAFKA_TLS_CERT.',
    example: '/etc/sluice/kafka-client.key',
  },
  SLUICE_KAFKA_SESSION_MS: {
    schema: wholeNumber(6000, 300_000).default(30_000),
    meaning:
      'How long Kafka waits for a worker that died before others get its partitions. Shorter also means that a worker which was only slow loses them.',
    example: '30000',
  },
  SLUICE_TOPIC_PREFIX: {
    schema: z
      .string()
      .regex(/^[a-zA-Z0-9._-]{0,100}$/, { error: "must be at most 100 letters, digits, '.', '_' or '-'" })
      .default('sluice.'),
    meaning: 'What the names of topics and consumer groups begin with.',
    example: 'sluice.',
  },
  SLUICE_CREDENTIALS_KEYS: {
    schema: z
      .string()
      .refine((text) => text.split(',').every(isKeyEntry), {
        error: 'must be id:key entries separated by commas, each key 32 bytes in base64',
      })
      .optional(),
    requiredBy: ['gateway', 'worker', 'admin'],
    meaning:
      'Keys that encrypt credentials and webhook secrets; the first one encrypts. Make one with: openssl rand -base64 32',
    example: '2026a:THE_OUTPUT_OF_openssl_rand_-base64_32',
    secret: true,
  },
  PORT: { schema: port(8080), meaning: 'Port of the gateway; 0 picks a free one.', example: '8080' },
  HOST: {
    schema: z.string().min(1).optional(),
    meaning: 'Address the gateway listens on. Default 0.0.0.0, under `npm start` 127.0.0.1.',
    example: '0.0.0.0',
  },
  ADMIN_PORT: {
    schema: port(8081),
    meaning: 'Port of the admin listener; 0 picks a free one.',
    example: '8081',
  },
  ADMIN_HOST: {
    schema: z.string().min(1).default('127.0.0.1'),
    meaning: 'Address the admin listener listens on.',
    example: '127.0.0.1',
  },
  WORKER_PORT: {
    schema: port(8082),
    meaning: "Port of the workers' health checks; 0 picks a free one.",
    example: '8082',
  },
  WORKER_HOST: {
    schema: z.string().min(1).default('127.0.0.1'),
    meaning: "Address the workers' health checks listen on.",
    example: '127.0.0.1',
  },
  SLUICE_DATA_DIR: {
    schema: z.string().min(1).default('.sluice'),
    meaning: 'Where `npm start` keeps its Postgres, its key and its demo tenant.',
    example: '.sluice',
  },
  SLUICE_WEBHOOK_ALLOW: {
    schema: z
      .string()
      .transform((text, ctx) => {
        try {
          return parseAllowRules(text);
        } catch {
          ctx.issues.push({
            code: 'custom',
            message: 'must be CIDR or CIDR:ports, several separated by commas',
            input: text,
          });
          return z.NEVER;
        }
      })
      .optional(),
    meaning:
      'Addresses that webhooks may go to besides public https ones, http included. Default none, under `npm start` loopback.',
    example: '127.0.0.0/8,10.20.0.0/16:8080-8090',
  },
  SLUICE_URL: {
    schema: z
      .string()
      .regex(/^https?:\/\/[^\s/?#]+[^\s?#]*$/, { error: 'must be an http:// or https:// address' })
      .optional(),
    meaning:
      'Where `sluice send` finds the gateway. Default: the embedded instance that runs on SLUICE_DATA_DIR.',
    example: 'http://localhost:8080',
  },
  SLUICE_API_KEY_ID: {
    schema: z.string().min(1).optional(),
    meaning: 'Id of the API key that `sluice send` uses. Default: that of the embedded demo tenant.',
    example: '01JABCDEFGHJKMNPQRSTVWXYZ0',
  },
  SLUICE_API_KEY_SECRET: {
    schema: z.string().min(1).optional(),
    meaning: 'Secret of that key.',
    example: 'THE_SECRET_THAT_keys_create_PRINTED',
    secret: true,
  },
  SLUICE_COMMAND: {
    schema: z.string().min(1).optional(),
    meaning:
      'What to type for the command, in what it says to do next. Default: `npx sluice` where npm runs it, else `sluice`.',
    example: 'docker compose run --rm cli',
  },
  SLUICE_CREDENTIALS_TTL_HOURS: {
    schema: wholeNumber(1, 24 * 365).default(24),
    meaning: 'Hours after which stored credentials are erased.',
    example: '24',
  },
  SLUICE_PUBLISH_DEADLINE_MS: {
    schema: wholeNumber(100, 60_000).default(5000),
    meaning: 'How long a request waits for the event log before it is answered 503.',
    example: '5000',
  },
  SLUICE_PUBLISH_BUFFER_BYTES: {
    schema: wholeNumber(8 * 1024 * 1024, 2 ** 31 - 1).default(64 * 1024 * 1024),
    meaning: 'Bytes that may wait for the event log; past it requests are answered 503.',
    example: '67108864',
  },
  SLUICE_DATABASE_CONNECTIONS: {
    schema: wholeNumber(10, 1000).default(16),
    meaning: 'Database connections of one process, at most.',
    example: '16',
  },
  SLUICE_DRAIN_DELAY_MS: {
    schema: milliseconds(5000),
    meaning:
      'How long a process that was told to stop goes on serving, so that load balancers see it. `npm start`: 0.',
    example: '5000',
  },
  SLUICE_SHUTDOWN_GRACE_MS: {
    schema: wholeNumber(1000, 600_000).default(30_000),
    meaning: 'How long a stopping process may take in all.',
    example: '30000',
  },
  SLUICE_LOG_LEVEL: {
    schema: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
        error: 'must be one of trace, debug, info, warn, error, fatal, silent',
      })
      .default('info'),
    meaning: 'Least severe lines that are logged. `npm start`: warn.',
    example: 'info',
  },
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof SETTINGS;
export type Config = { readonly [Name in SettingName]: z.output<(typeof SETTINGS)[Name]['schema']> };

/** One setting that is wrong or missing. Never holds the value. */
export interface ConfigProblem {
  readonly name: SettingName;
  readonly problem: string;
  readonly example: string;
}

/** All settings that are wrong, at once. `message` has a line for each. */
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

/** Where the settings come from: the variables, and the names of those that the `.env` file set. */
export interface Environment {
  readonly env: NodeJS.ProcessEnv;
  readonly fromFile: ReadonlySet<string>;
}

/** The environment of this process, with what a `.env` file in the working directory adds to it. */
export function environment(): NodeJS.ProcessEnv {
  return readEnvironment().env;
}

/** {@link environment}, and which of its variables the file set. */
export function readEnvironment(): Environment {
  if (!existsSync('.env')) return { env: process.env, fromFile: new Set() };
  // What is set already wins over the file.
  const names = Object.keys(parseEnv(readFileSync('.env', 'utf8')));
  const fromFile = new Set(names.filter((name) => process.env[name] === undefined));
  process.loadEnvFile('.env');
  return { env: process.env, fromFile };
}

/** Reads the settings of a role. An empty variable counts as unset. Throws {@link ConfigError} naming all problems. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>, role: Role): Config {
  const values: Record<string, unknown> = {};
  const problems: ConfigProblem[] = [];
  for (const name of Object.keys(SETTINGS) as SettingName[]) {
    const { value, problem } = readSetting(env, role, name);
    if (problem === undefined) values[name] = value;
    else problems.push({ name, problem, example: SETTINGS[name].example });
  }
  for (const { name, problem } of togetherProblems(values as ServiceSettings, role)) {
    if (!problems.some((known) => known.name === name)) {
      problems.push({ name, problem, example: SETTINGS[name].example });
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return { ...(values as Config), DATABASE_URL: databaseUrlOf(values as ServiceSettings) };
}

/** Only of what the role uses: a process that never asks Kafka needs none of its files. */
function togetherProblems(settings: ServiceSettings, role: Role) {
  if (role === 'embedded') return [];
  return [...databaseProblems(settings), ...(role === 'admin' ? [] : kafkaProblems(settings))];
}

/** One setting as a role reads it: its value (undefined where it has none), or what is wrong with it. */
export function readSetting(
  env: Readonly<Record<string, string | undefined>>,
  role: Role,
  name: SettingName,
): { readonly value?: unknown; readonly problem?: string } {
  const setting: Setting = SETTINGS[name];
  const result = setting.schema.safeParse(env[name] || standardOf(name, role));
  if (!result.success) return { problem: result.error.issues[0]!.message };
  if (result.data === undefined && setting.requiredBy?.includes(role)) return { problem: 'is missing' };
  return { value: result.data };
}

/** Whether a setting's value must never be shown. */
export function isSecret(name: SettingName): boolean {
  const setting: Setting = SETTINGS[name];
  return setting.secret === true;
}

/** Defaults that differ by role. */
function standardOf(name: SettingName, role: Role): string | undefined {
  if (name === 'HOST') return role === 'embedded' ? '127.0.0.1' : '0.0.0.0';
  if (role !== 'embedded') return undefined;
  if (name === 'SLUICE_WEBHOOK_ALLOW') return '127.0.0.0/8,::1/128';
  if (name === 'SLUICE_DRAIN_DELAY_MS') return '0';
  // The terminal belongs to what a first try needs to read.
  if (name === 'SLUICE_LOG_LEVEL') return 'warn';
  return undefined;
}

function wholeNumber(min: number, max: number) {
  return z.preprocess(
    (value) => (typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value),
    z
      .int({ error: `must be a whole number from ${min} to ${max}` })
      .min(min, { error: `must be a whole number from ${min} to ${max}` })
      .max(max, { error: `must be a whole number from ${min} to ${max}` }),
  );
}

function isKeyEntry(entry: string): boolean {
  const match = /^([A-Za-z0-9_-]{1,64}):([A-Za-z0-9+/]{43}=)$/.exec(entry.trim());
  return match !== null && Buffer.from(match[2]!, 'base64').length === 32;
}
