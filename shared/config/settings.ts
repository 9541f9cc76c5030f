import type { z } from 'zod';
import {
  allowRules,
  anyText,
  brokers,
  databaseUrl,
  headerValue,
  httpUrl,
  keyRing,
  listenAddress,
  oneOf,
  text,
  wholeNumber,
} from './schemas.ts';

/**
 * The table of all settings. `.env.example` and docs/settings.md are made from it (`npm run docs`); what is said of a
 * wrong setting is its `allowed` and its example.
 */

/** What kind of process asks: each needs other settings. Only webhooks need the keys. */
export const ROLES = ['embedded', 'gateway', 'worker', 'worker-without-webhooks', 'admin', 'cli'] as const;
export type Role = (typeof ROLES)[number];

export interface Setting {
  readonly schema: z.ZodType;
  /** In words what its value may be, to go on after "must be". */
  readonly allowed: string;
  /** Roles that read it. No other one can, nor is stopped by it when it is wrong. */
  readonly usedBy: readonly Role[];
  /** Of those, the ones that cannot start without it. */
  readonly requiredBy?: readonly Role[];
  /** The default under `npm start`, where it differs. */
  readonly embeddedDefault?: string;
  readonly meaning: string;
  readonly example: string;
  /** Whether its value must never be shown. */
  readonly secret?: true;
}

type Settings = Readonly<Record<string, Setting>>;

const WORKERS = ['worker', 'worker-without-webhooks'] as const;
/** The processes that run on services of your own. */
const PARTS = ['gateway', ...WORKERS, 'admin'] as const;
const KAFKA_USERS = ['gateway', ...WORKERS, 'cli'] as const;

const certificates = anyText('the path of a file with certificates in PEM form');
const port = (standard: number) => wholeNumber(0, 65_535, standard);

const database = {
  DATABASE_URL: {
    allowed: databaseUrl.allowed,
    schema: databaseUrl.schema.optional(),
    usedBy: [...PARTS, 'cli'],
    requiredBy: PARTS,
    meaning:
      'Your own Postgres, 15 or later; sslmode (disable, verify-full, no-verify) and sslrootcert may be part of it. `npm start` runs one of its own instead.',
    example: 'postgres://sluice:password@localhost:5432/sluice',
  },
  DATABASE_TLS_CA: {
    allowed: certificates.allowed,
    schema: certificates.schema.optional(),
    usedBy: [...PARTS, 'cli'],
    meaning:
      'Certificates that the server of DATABASE_URL is verified by, its name included, as sslmode=verify-full does. Without it those that Node knows are used, where sslmode asks for TLS.',
    example: '/etc/sluice/postgres-ca.pem',
  },
  SLUICE_DATABASE_CONNECTIONS: {
    ...wholeNumber(10, 1000, 16),
    usedBy: ['embedded', ...PARTS],
    meaning:
      'Database connections of one process, at most. `npm start` opens 6 more, for its admin listener alone.',
    example: '16',
  },
  SLUICE_DATA_DIR: {
    allowed: 'the path of a folder',
    schema: anyText('').schema.default('.sluice'),
    usedBy: ['embedded', 'cli'],
    meaning:
      'Where `npm start` keeps its Postgres, its key and its demo tenant. The command finds them there where DATABASE_URL is not set.',
    example: '.sluice',
  },
} as const satisfies Settings;

const mechanism = oneOf(['plain', 'scram-sha-256', 'scram-sha-512']);
const onOrOff = oneOf(['on', 'off']);
const prefix = text("at most 100 letters, digits, '.', '_' or '-'", (given) =>
  /^[a-zA-Z0-9._-]{0,100}$/.test(given),
);

/** How Kafka is reached. */
const kafkaConnection = {
  KAFKA_BROKERS: {
    allowed: brokers.allowed,
    schema: brokers.schema.optional(),
    usedBy: KAFKA_USERS,
    requiredBy: ['gateway', ...WORKERS],
    meaning:
      'Your own Kafka: brokers to begin with. `npm start` keeps the event log in its Postgres instead.',
    example: 'localhost:9092',
  },
  KAFKA_SASL_MECHANISM: {
    allowed: mechanism.allowed,
    schema: mechanism.schema.optional(),
    usedBy: KAFKA_USERS,
    meaning:
      'How Kafka checks the user and the password. Unset: it does not. With plain the password travels as it is, so use it with KAFKA_TLS=on.',
    example: 'scram-sha-512',
  },
  KAFKA_SASL_USERNAME: {
    allowed: 'any text',
    schema: anyText('').schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: 'User at Kafka, for KAFKA_SASL_MECHANISM.',
    example: 'sluice',
  },
  KAFKA_SASL_PASSWORD: {
    allowed: 'any text',
    schema: anyText('').schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: "That user's password.",
    example: 'THE_PASSWORD',
    secret: true,
  },
  KAFKA_TLS: {
    allowed: onOrOff.allowed,
    schema: onOrOff.schema.default('off'),
    usedBy: KAFKA_USERS,
    meaning: "Whether Kafka is reached by TLS; the brokers' certificates and names are then verified.",
    example: 'on',
  },
  KAFKA_TLS_CA: {
    allowed: certificates.allowed,
    schema: certificates.schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: 'Certificates that brokers are verified by. Unset: those that Node knows.',
    example: '/etc/sluice/kafka-ca.pem',
  },
  KAFKA_TLS_CERT: {
    allowed: certificates.allowed,
    schema: certificates.schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: 'The certificate that is shown to brokers which ask for one.',
    example: '/etc/sluice/kafka-client.pem',
  },
  KAFKA_TLS_KEY: {
    allowed: 'the path of a file with a private key in PEM form, without a passphrase',
    schema: anyText('').schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: 'The key of KAFKA_TLS_CERT.',
    example: '/etc/sluice/kafka-client.key',
  },
} as const satisfies Settings;

const kafka = {
  ...kafkaConnection,
  SLUICE_KAFKA_SESSION_MS: {
    ...wholeNumber(6000, 300_000, 30_000, 'milliseconds'),
    usedBy: WORKERS,
    meaning:
      'How long Kafka waits for a worker that died before others get its partitions. Shorter also means that a worker which was only slow loses them.',
    example: '30000',
  },
  SLUICE_TOPIC_PREFIX: {
    allowed: prefix.allowed,
    schema: prefix.schema.default('sluice.'),
    usedBy: ['embedded', ...KAFKA_USERS],
    meaning: 'What the names of topics and consumer groups begin with.',
    example: 'sluice.',
  },
} as const satisfies Settings;

const keys = {
  SLUICE_CREDENTIALS_KEYS: {
    allowed: keyRing.allowed,
    schema: keyRing.schema.optional(),
    usedBy: ['embedded', 'gateway', 'worker', 'admin', 'cli'],
    requiredBy: ['gateway', 'worker', 'admin'],
    meaning:
      'Keys that encrypt credentials and webhook secrets, the same for all parts; the first one encrypts, all decrypt. Make one with: openssl rand -base64 32. `npm start` makes its own unless it is set.',
    example: '2026a:THE_OUTPUT_OF_openssl_rand_-base64_32',
    secret: true,
  },
  SLUICE_CREDENTIALS_TTL_HOURS: {
    ...wholeNumber(1, 24 * 365, 24, 'hours'),
    usedBy: ['embedded', ...WORKERS],
    meaning: 'How long stored credentials are kept before they are erased.',
    example: '24',
  },
} as const satisfies Settings;

const listeners = {
  PORT: {
    ...port(8080),
    usedBy: ['embedded', 'gateway'],
    meaning: 'Port of the gateway; 0 picks a free one.',
    example: '8080',
  },
  HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('0.0.0.0'),
    embeddedDefault: '127.0.0.1',
    usedBy: ['embedded', 'gateway'],
    meaning: 'Address the gateway listens on.',
    example: '0.0.0.0',
  },
  ADMIN_PORT: {
    ...port(8081),
    usedBy: ['embedded', 'admin'],
    meaning: 'Port of the admin listener; 0 picks a free one.',
    example: '8081',
  },
  ADMIN_HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('127.0.0.1'),
    usedBy: ['embedded', 'admin'],
    meaning: 'Address the admin listener listens on.',
    example: '127.0.0.1',
  },
  SLUICE_DOCS: {
    allowed: onOrOff.allowed,
    schema: onOrOff.schema.default('on'),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Whether the gateway serves /docs and /openapi.json, which need no key. The admin listener always serves its own.',
    example: 'off',
  },
  WORKER_PORT: {
    ...port(8082),
    usedBy: WORKERS,
    meaning: "Port of the workers' health checks; 0 picks a free one.",
    example: '8082',
  },
  WORKER_HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('127.0.0.1'),
    usedBy: WORKERS,
    meaning: "Address the workers' health checks listen on.",
    example: '127.0.0.1',
  },
} as const satisfies Settings;

const webhooks = {
  SLUICE_WEBHOOK_ALLOW: {
    allowed: allowRules.allowed,
    schema: allowRules.schema.optional(),
    embeddedDefault: '127.0.0.0/8,::1/128',
    usedBy: ['embedded', 'worker', 'admin', 'cli'],
    meaning: 'Addresses that webhooks may go to besides public https ones, http included.',
    example: '127.0.0.0/8,10.20.0.0/16:8080-8090',
  },
  SLUICE_WEBHOOK_ENDPOINTS_MAX: {
    ...wholeNumber(1, 1000, 20),
    usedBy: ['embedded', 'admin', 'cli'],
    meaning:
      'Webhook endpoints that a tenant may have; deleted ones do not count. Each event is sent to every one of them. A tenant that has more keeps them and cannot add any.',
    example: '20',
  },
} as const satisfies Settings;

const command = {
  SLUICE_URL: {
    allowed: httpUrl.allowed,
    schema: httpUrl.schema.optional(),
    usedBy: ['cli'],
    meaning:
      'Where `sluice send` finds the gateway. Unset: the embedded instance that runs on SLUICE_DATA_DIR.',
    example: 'http://localhost:8080',
  },
  SLUICE_API_KEY_ID: {
    allowed: headerValue.allowed,
    schema: headerValue.schema.optional(),
    usedBy: ['cli'],
    meaning: 'Id of the API key that `sluice send` uses. Unset: that of the embedded demo tenant.',
    example: '01JABCDEFGHJKMNPQRSTVWXYZ0',
  },
  SLUICE_API_KEY_SECRET: {
    allowed: headerValue.allowed,
    schema: headerValue.schema.optional(),
    usedBy: ['cli'],
    meaning: 'Secret of that key.',
    example: 'THE_SECRET_THAT_keys_create_PRINTED',
    secret: true,
  },
  SLUICE_COMMAND: {
    allowed: 'any text',
    schema: anyText('').schema.optional(),
    usedBy: ['cli'],
    meaning:
      'What to type for the command, in what it says to do next. Unset: `npx sluice` where npm runs it, else `sluice`.',
    example: 'docker compose run --rm cli',
  },
} as const satisfies Settings;

const limits = {
  SLUICE_PUBLISH_DEADLINE_MS: {
    ...wholeNumber(100, 60_000, 5000, 'milliseconds'),
    usedBy: ['embedded', 'gateway', ...WORKERS],
    meaning: 'How long a request waits for the event log before it is answered 503.',
    example: '5000',
  },
  SLUICE_PUBLISH_BUFFER_BYTES: {
    ...wholeNumber(8 * 1024 * 1024, 2 ** 31 - 1, 64 * 1024 * 1024, 'bytes'),
    usedBy: ['embedded', 'gateway', ...WORKERS],
    meaning:
      'How much may wait for the event log; no tenant holds more of it than it leaves free. Past it requests are answered 503.',
    example: '67108864',
  },
  SLUICE_GATEWAYS: {
    ...wholeNumber(1, 1000, 1),
    usedBy: ['gateway'],
    meaning:
      'How many gateways share the callers. Each takes its part of every rate, so that all together keep to it; daily quotas need no share.',
    example: '2',
  },
  SLUICE_CONNECTIONS_MAX: {
    ...wholeNumber(10, 1_000_000, 5000),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Connections of callers to one gateway, at most, of one address a tenth. Past it new ones are closed at once, so that a load balancer tries another gateway; a few more are taken for health checks.',
    example: '5000',
  },
  SLUICE_TRUSTED_HOPS: {
    ...wholeNumber(0, 10, 0),
    usedBy: ['embedded', 'gateway'],
    meaning:
      "Proxies in front of the gateway that add to X-Forwarded-For. 0: callers connect themselves, and one address gets a tenth of SLUICE_CONNECTIONS_MAX. Otherwise connections are the proxy's, in any number; the tenth bounds the open requests of the address that the outermost of these proxies saw.",
    example: '1',
  },
  SLUICE_KEEP_ALIVE_MS: {
    ...wholeNumber(1000, 3_600_000, 620_000, 'milliseconds'),
    usedBy: ['embedded', 'gateway', 'admin'],
    meaning:
      'How long a connection that has shown a valid key is kept without a request. Longer than the idle timeout of what is in front, or requests get no answer. Without a key it is 15 s, unless SLUICE_TRUSTED_HOPS is set.',
    example: '620000',
  },
  SLUICE_BODY_BUFFER_BYTES: {
    ...wholeNumber(32 * 1024 * 1024, 2 ** 31 - 1, 64 * 1024 * 1024, 'bytes'),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'How much the bodies of requests may hold at once, as sent and unpacked, those of one tenant half of it, of several equal parts; past it requests are answered 503.',
    example: '67108864',
  },
  SLUICE_ADMIN_RATE: {
    ...wholeNumber(1, 1_000_000, 100),
    usedBy: ['embedded', 'admin'],
    meaning:
      "Requests per second that a tenant may make of one admin listener, for each scope; twice as many at once. A lower rate of the tenant's own holds here too, and a tenant with `--rate none` has no limit.",
    example: '100',
  },
  SLUICE_KEYS_PER_DAY: {
    ...wholeNumber(1, 1_000_000, 1000),
    usedBy: ['embedded', 'admin'],
    meaning:
      'API keys that the keys of one tenant may make in 24 hours by the admin listener, revoked ones included. `sluice keys create` has no such limit.',
    example: '1000',
  },
  SLUICE_DRAIN_DELAY_MS: {
    ...wholeNumber(0, 86_400_000, 5000, 'milliseconds'),
    embeddedDefault: '0',
    usedBy: ['embedded', 'gateway', 'admin'],
    meaning:
      'How long a process that was told to stop goes on serving, so that load balancers see that it is not ready.',
    example: '5000',
  },
  SLUICE_SHUTDOWN_GRACE_MS: {
    ...wholeNumber(1000, 600_000, 30_000, 'milliseconds'),
    usedBy: ['embedded', ...PARTS],
    meaning: 'How long a stopping process may take in all.',
    example: '30000',
  },
} as const satisfies Settings;

const level = oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']);

const logs = {
  SLUICE_LOG_LEVEL: {
    allowed: level.allowed,
    schema: level.schema.default('info'),
    // The terminal belongs to what a first try needs to read.
    embeddedDefault: 'warn',
    usedBy: ['embedded', ...PARTS],
    meaning: 'Least severe lines that are logged.',
    example: 'info',
  },
} as const satisfies Settings;

/** In the order of the documentation. */
export const GROUPS: readonly { readonly title: string; readonly settings: Settings }[] = [
  { title: 'Database', settings: database },
  { title: 'Kafka', settings: kafka },
  { title: 'Keys', settings: keys },
  { title: 'Listeners', settings: listeners },
  { title: 'Webhooks', settings: webhooks },
  { title: 'The command', settings: command },
  { title: 'Deadlines and limits', settings: limits },
  { title: 'Logs', settings: logs },
];

/** Every setting by its name. */
export const SETTINGS = {
  ...database,
  ...kafka,
  ...keys,
  ...listeners,
  ...webhooks,
  ...command,
  ...limits,
  ...logs,
};

export type SettingName = keyof typeof SETTINGS;

/** Which database a command works on, and how it is reached. */
export const DATABASE_SETTINGS = ['DATABASE_URL', 'DATABASE_TLS_CA', 'SLUICE_DATA_DIR'] as const;
/** How Kafka is reached. */
export const KAFKA_SETTINGS = Object.keys(kafkaConnection) as (keyof typeof kafkaConnection)[];
/** Where records lie: the database with the embedded log, or Kafka; and the topics. */
export const LOG_SETTINGS = [...DATABASE_SETTINGS, ...KAFKA_SETTINGS, 'SLUICE_TOPIC_PREFIX'] as const;
export type DatabaseSetting = (typeof DATABASE_SETTINGS)[number];
export type KafkaSetting = (typeof KAFKA_SETTINGS)[number];
export type LogSetting = (typeof LOG_SETTINGS)[number];
