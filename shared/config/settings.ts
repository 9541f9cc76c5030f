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
 * The table of all settings. `npm run docs` generates `.env.example` and docs/settings.md from it. The error message of a
 * wrong setting contains its `allowed` and its example.
 */

/** The kind of process that reads settings. Only workers with webhooks need the key ring. */
export const ROLES = ['embedded', 'gateway', 'worker', 'worker-without-webhooks', 'admin', 'cli'] as const;
export type Role = (typeof ROLES)[number];

export interface Setting {
  readonly schema: z.ZodType;
  /** The allowed values in words, which complete "must be". */
  readonly allowed: string;
  /** Roles that read it. Other roles ignore it, even if it is wrong. */
  readonly usedBy: readonly Role[];
  /** Roles that cannot start without it. */
  readonly requiredBy?: readonly Role[];
  /** The default of `npm start`, if it differs. */
  readonly embeddedDefault?: string;
  readonly meaning: string;
  readonly example: string;
  /** True if its value must never be shown. */
  readonly secret?: true;
}

type Settings = Readonly<Record<string, Setting>>;

const WORKERS = ['worker', 'worker-without-webhooks'] as const;
/** The processes that run on your own services. */
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
      'URL of your own Postgres, 15 or later. It may contain sslmode (disable, verify-full, no-verify) and sslrootcert. `npm start` uses its own Postgres instead.',
    example: 'postgres://sluice:password@localhost:5432/sluice',
  },
  DATABASE_TLS_CA: {
    allowed: certificates.allowed,
    schema: certificates.schema.optional(),
    usedBy: [...PARTS, 'cli'],
    meaning:
      'CA certificates to verify the server of DATABASE_URL and its name, as sslmode=verify-full does. Unset: those that Node knows, if sslmode requests TLS.',
    example: '/etc/sluice/postgres-ca.pem',
  },
  SLUICE_DATABASE_CONNECTIONS: {
    ...wholeNumber(10, 1000, 16),
    usedBy: ['embedded', ...PARTS],
    meaning: 'Maximum database connections per process. `npm start` opens 6 more for its admin listener.',
    example: '16',
  },
  SLUICE_DATA_DIR: {
    allowed: 'the path of a folder',
    schema: anyText('').schema.default('.sluice'),
    usedBy: ['embedded', 'cli'],
    meaning:
      'Folder in which `npm start` stores its Postgres, its key ring and its demo tenant. The command uses it if DATABASE_URL is not set.',
    example: '.sluice',
  },
} as const satisfies Settings;

const mechanism = oneOf(['plain', 'scram-sha-256', 'scram-sha-512']);
const onOrOff = oneOf(['on', 'off']);
const prefix = text("at most 100 letters, digits, '.', '_' or '-'", (given) =>
  /^[a-zA-Z0-9._-]{0,100}$/.test(given),
);

/** The connection to Kafka. */
const kafkaConnection = {
  KAFKA_BROKERS: {
    allowed: brokers.allowed,
    schema: brokers.schema.optional(),
    usedBy: KAFKA_USERS,
    requiredBy: ['gateway', ...WORKERS],
    meaning:
      'Bootstrap brokers of your own Kafka. `npm start` uses the embedded event log in its Postgres instead.',
    example: 'localhost:9092',
  },
  KAFKA_SASL_MECHANISM: {
    allowed: mechanism.allowed,
    schema: mechanism.schema.optional(),
    usedBy: KAFKA_USERS,
    meaning:
      'SASL mechanism. Unset: no authentication. plain sends the password unencrypted, so use it only with TLS.',
    example: 'scram-sha-512',
  },
  KAFKA_SASL_USERNAME: {
    allowed: 'any text',
    schema: anyText('').schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: 'SASL user name, for KAFKA_SASL_MECHANISM.',
    example: 'sluice',
  },
  KAFKA_SASL_PASSWORD: {
    allowed: 'any text',
    schema: anyText('').schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: 'SASL password, for KAFKA_SASL_MECHANISM.',
    example: 'THE_PASSWORD',
    secret: true,
  },
  KAFKA_TLS: {
    allowed: onOrOff.allowed,
    schema: onOrOff.schema.default('off'),
    usedBy: KAFKA_USERS,
    meaning: "Connects to Kafka with TLS and verifies the brokers' certificates and names.",
    example: 'on',
  },
  KAFKA_TLS_CA: {
    allowed: certificates.allowed,
    schema: certificates.schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: 'CA certificates to verify brokers. Unset: those that Node knows.',
    example: '/etc/sluice/kafka-ca.pem',
  },
  KAFKA_TLS_CERT: {
    allowed: certificates.allowed,
    schema: certificates.schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: 'Client certificate for brokers that require one.',
    example: '/etc/sluice/kafka-client.pem',
  },
  KAFKA_TLS_KEY: {
    allowed: 'the path of a file with a private key in PEM form, without a passphrase',
    schema: anyText('').schema.optional(),
    usedBy: KAFKA_USERS,
    meaning: 'Private key of KAFKA_TLS_CERT.',
    example: '/etc/sluice/kafka-client.key',
  },
} as const satisfies Settings;

const kafka = {
  ...kafkaConnection,
  SLUICE_KAFKA_SESSION_MS: {
    ...wholeNumber(6000, 300_000, 30_000, 'milliseconds'),
    usedBy: WORKERS,
    meaning:
      'Session timeout of the consumer group: how long after a worker died Kafka reassigns its partitions. A shorter timeout also reassigns those of slow workers.',
    example: '30000',
  },
  SLUICE_TOPIC_PREFIX: {
    allowed: prefix.allowed,
    schema: prefix.schema.default('sluice.'),
    usedBy: ['embedded', ...KAFKA_USERS],
    meaning: 'Prefix of the names of topics and consumer groups.',
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
      'Key ring that encrypts credentials and webhook secrets, the same for all parts. The first key encrypts, all decrypt. Generate a key with: openssl rand -base64 32. Unset, `npm start` generates one.',
    example: '2026a:THE_OUTPUT_OF_openssl_rand_-base64_32',
    secret: true,
  },
  SLUICE_CREDENTIALS_TTL_HOURS: {
    ...wholeNumber(1, 24 * 365, 24, 'hours'),
    usedBy: ['embedded', ...WORKERS, 'cli'],
    meaning: 'Time after which stored credentials are erased.',
    example: '24',
  },
} as const satisfies Settings;

const listeners = {
  PORT: {
    ...port(8080),
    usedBy: ['embedded', 'gateway'],
    meaning: 'Port of the gateway; 0 selects a free port.',
    example: '8080',
  },
  HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('0.0.0.0'),
    embeddedDefault: '127.0.0.1',
    usedBy: ['embedded', 'gateway'],
    meaning: 'Address on which the gateway listens.',
    example: '0.0.0.0',
  },
  ADMIN_PORT: {
    ...port(8081),
    usedBy: ['embedded', 'admin'],
    meaning: 'Port of the admin listener; 0 selects a free port.',
    example: '8081',
  },
  ADMIN_HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('127.0.0.1'),
    usedBy: ['embedded', 'admin'],
    meaning: 'Address on which the admin listener listens.',
    example: '127.0.0.1',
  },
  SLUICE_DOCS: {
    allowed: onOrOff.allowed,
    schema: onOrOff.schema.default('on'),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Serves /docs and /openapi.json on the gateway, without a key. The admin listener always serves its own.',
    example: 'off',
  },
  WORKER_PORT: {
    ...port(8082),
    usedBy: WORKERS,
    meaning: "Port of the workers' health checks; 0 selects a free port.",
    example: '8082',
  },
  WORKER_HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('127.0.0.1'),
    usedBy: WORKERS,
    meaning: "Address on which the workers' health checks listen.",
    example: '127.0.0.1',
  },
} as const satisfies Settings;

const webhooks = {
  SLUICE_WEBHOOK_ALLOW: {
    allowed: allowRules.allowed,
    schema: allowRules.schema.optional(),
    embeddedDefault: '127.0.0.0/8,::1/128',
    usedBy: ['embedded', 'worker', 'admin', 'cli'],
    meaning: 'Addresses to which webhooks may be sent in addition to public https ones, also with http.',
    example: '127.0.0.0/8,10.20.0.0/16:8080-8090',
  },
  SLUICE_WEBHOOK_ENDPOINTS_MAX: {
    ...wholeNumber(1, 1000, 20),
    usedBy: ['embedded', 'admin', 'cli'],
    meaning:
      'Maximum webhook endpoints per tenant; deleted ones do not count. Each event is sent to every endpoint. A tenant over a lowered limit keeps its endpoints and cannot add any.',
    example: '20',
  },
} as const satisfies Settings;

const command = {
  SLUICE_URL: {
    allowed: httpUrl.allowed,
    schema: httpUrl.schema.optional(),
    usedBy: ['cli'],
    meaning:
      'Base URL of the gateway for `sluice send`. Unset: the `npm start` that runs on SLUICE_DATA_DIR.',
    example: 'http://localhost:8080',
  },
  SLUICE_API_KEY_ID: {
    allowed: headerValue.allowed,
    schema: headerValue.schema.optional(),
    usedBy: ['cli'],
    meaning: 'Id of the API key for `sluice send`. Unset: the key of the demo tenant of `npm start`.',
    example: '01JABCDEFGHJKMNPQRSTVWXYZ0',
  },
  SLUICE_API_KEY_SECRET: {
    allowed: headerValue.allowed,
    schema: headerValue.schema.optional(),
    usedBy: ['cli'],
    meaning: 'Secret of the API key in SLUICE_API_KEY_ID.',
    example: 'THE_SECRET_THAT_keys_create_PRINTED',
    secret: true,
  },
  SLUICE_COMMAND: {
    allowed: 'any text',
    schema: anyText('').schema.optional(),
    usedBy: ['cli'],
    meaning:
      'How the command names itself in its suggestions. Unset: `npx sluice` if npm runs it, else `sluice`.',
    example: 'docker compose run --rm cli',
  },
} as const satisfies Settings;

const limits = {
  SLUICE_PUBLISH_DEADLINE_MS: {
    ...wholeNumber(100, 60_000, 5000, 'milliseconds'),
    usedBy: ['embedded', 'gateway'],
    meaning: 'Time that a request waits for the event log before it is answered 503.',
    example: '5000',
  },
  SLUICE_PUBLISH_BUFFER_BYTES: {
    ...wholeNumber(8 * 1024 * 1024, 2 ** 31 - 1, 64 * 1024 * 1024, 'bytes'),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Maximum bytes that wait for the event log. A tenant holds at most as much as it leaves free. Over it, requests are answered 503.',
    example: '67108864',
  },
  SLUICE_DEAD_LETTERS_BYTES_MAX: {
    ...wholeNumber(1024 * 1024, Number.MAX_SAFE_INTEGER, 1024 ** 3, 'bytes'),
    usedBy: ['embedded', 'gateway'],
    meaning:
      "Maximum bytes of a tenant's open dead letters. Over it, the tenant's records are answered 429 until some are replayed or dropped. Records accepted before are still set aside.",
    example: '1073741824',
  },
  SLUICE_GATEWAYS: {
    ...wholeNumber(1, 1000, 1),
    usedBy: ['gateway'],
    meaning:
      'Number of gateways that share the callers. Each enforces its share of every rate. Daily quotas are not shared.',
    example: '2',
  },
  SLUICE_CONNECTIONS_MAX: {
    ...wholeNumber(10, 1_000_000, 5000),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Maximum connections to one gateway; one address gets at most a tenth. Further ones are closed immediately, so that a load balancer tries another gateway. A few more are accepted for health checks.',
    example: '5000',
  },
  SLUICE_TRUSTED_HOPS: {
    ...wholeNumber(0, 10, 0),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Number of proxies in front of the gateway that add to X-Forwarded-For. 0: callers connect directly, and one address gets a tenth of SLUICE_CONNECTIONS_MAX connections. Otherwise the tenth limits the open requests of the address that the outermost of these proxies saw.',
    example: '1',
  },
  SLUICE_KEEP_ALIVE_MS: {
    ...wholeNumber(1000, 3_600_000, 620_000, 'milliseconds'),
    usedBy: ['embedded', 'gateway', 'admin'],
    meaning:
      'Idle timeout of a connection that has shown a valid key. It must be longer than the idle timeout of a proxy in front, or requests get no answer. Without a key it is 15 s, unless SLUICE_TRUSTED_HOPS is set.',
    example: '620000',
  },
  SLUICE_BODY_BUFFER_BYTES: {
    ...wholeNumber(32 * 1024 * 1024, 2 ** 31 - 1, 64 * 1024 * 1024, 'bytes'),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Maximum bytes of all request bodies, as sent and after gunzip. One tenant gets at most half of it, several tenants equal parts. Over it, requests are answered 503.',
    example: '67108864',
  },
  SLUICE_ADMIN_RATE: {
    ...wholeNumber(1, 1_000_000, 100),
    usedBy: ['embedded', 'admin'],
    meaning:
      "Requests per second per tenant and scope at one admin listener, with a burst of twice as many. A tenant's own lower rate applies here too. A tenant with `--rate none` has no limit.",
    example: '100',
  },
  SLUICE_KEYS_PER_DAY: {
    ...wholeNumber(1, 1_000_000, 1000),
    usedBy: ['embedded', 'admin'],
    meaning:
      'Maximum API keys that one tenant may create in 24 hours at the admin listener, including revoked ones. `sluice keys create` has no such limit.',
    example: '1000',
  },
  SLUICE_DRAIN_DELAY_MS: {
    ...wholeNumber(0, 86_400_000, 5000, 'milliseconds'),
    embeddedDefault: '0',
    usedBy: ['embedded', 'gateway', 'admin'],
    meaning: 'Time that a stopping process keeps serving, so that load balancers see that it is not ready.',
    example: '5000',
  },
  SLUICE_SHUTDOWN_GRACE_MS: {
    ...wholeNumber(1000, 600_000, 30_000, 'milliseconds'),
    usedBy: ['embedded', ...PARTS],
    meaning: 'Maximum time of a graceful shutdown.',
    example: '30000',
  },
} as const satisfies Settings;

const level = oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']);

const logs = {
  SLUICE_LOG_LEVEL: {
    allowed: level.allowed,
    schema: level.schema.default('info'),
    // A first try needs the terminal for its own output.
    embeddedDefault: 'warn',
    usedBy: ['embedded', ...PARTS],
    meaning: 'Minimum level of logged lines.',
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

/** Settings of the database that a command uses. */
export const DATABASE_SETTINGS = ['DATABASE_URL', 'DATABASE_TLS_CA', 'SLUICE_DATA_DIR'] as const;
/** Settings of the connection to Kafka. */
export const KAFKA_SETTINGS = Object.keys(kafkaConnection) as (keyof typeof kafkaConnection)[];
/** Settings of the event log: the database with the embedded log, or Kafka, and the topics. */
export const LOG_SETTINGS = [...DATABASE_SETTINGS, ...KAFKA_SETTINGS, 'SLUICE_TOPIC_PREFIX'] as const;
export type DatabaseSetting = (typeof DATABASE_SETTINGS)[number];
export type KafkaSetting = (typeof KAFKA_SETTINGS)[number];
export type LogSetting = (typeof LOG_SETTINGS)[number];
