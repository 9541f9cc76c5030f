import { listeners, metrics } from './listener-settings.ts';
import { retention } from './retention-settings.ts';
import { allowRules, anyText, headerValue, httpUrl, oneOf, wholeNumber } from './schemas.ts';
import { database, kafka, kafkaConnection, keys } from './service-settings.ts';
import { PARTS, type Settings } from './setting.ts';

/**
 * The table of all settings. service-settings.ts holds those of Postgres, Kafka and the key ring,
 * listener-settings.ts those of the listeners, and retention-settings.ts what is deleted by age.
 * `npm run docs` generates `.env.example` and docs/settings.md from it. The error message of a wrong
 * setting contains its `allowed` and its example.
 */

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
  WEBHOOK_SECRET: {
    allowed: 'one secret, or several separated by white space',
    schema: anyText('').schema.optional(),
    usedBy: ['cli'],
    meaning: 'Signing secret of the endpoint whose webhook `sluice webhooks verify` verifies.',
    example: 'whsec_THE_SECRET_THAT_webhooks_create_PRINTED',
    secret: true,
  },
  SLUICE_COMMAND: {
    allowed: 'any text',
    schema: anyText('').schema.optional(),
    usedBy: ['cli'],
    meaning: 'How the command names itself in its suggestions. Unset: `./sluice`.',
    example: 'docker compose run --rm cli',
  },
} as const satisfies Settings;

/** Least bytes that can wait for the log in one process, so that a full request fits. */
export const PUBLISH_BUFFER_BYTES_MIN = 8 * 1024 * 1024;
/** Least bytes of bodies in one process, so that several tenants can send full batches. */
export const BODY_BUFFER_BYTES_MIN = 32 * 1024 * 1024;

const limits = {
  SLUICE_PUBLISH_DEADLINE_MS: {
    ...wholeNumber(100, 60_000, 5000, 'milliseconds'),
    usedBy: ['embedded', 'gateway'],
    meaning: 'Time that a request waits for the event log before it is answered 503.',
    example: '5000',
  },
  SLUICE_PUBLISH_BUFFER_BYTES: {
    ...wholeNumber(PUBLISH_BUFFER_BYTES_MIN, 2 ** 31 - 1, 64 * 1024 * 1024, 'bytes'),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Maximum bytes that wait for the event log. A tenant holds at most as much as it leaves free. Over it, requests are answered 503.',
    example: '67108864',
  },
  SLUICE_DEAD_LETTERS_BYTES_MAX: {
    ...wholeNumber(1024 * 1024, Number.MAX_SAFE_INTEGER, 1024 ** 3, 'bytes'),
    usedBy: ['embedded', 'gateway'],
    meaning:
      "Maximum bytes of a tenant's open dead letters. Over it, the tenant's records are answered 429 until some are replayed or dropped. Records accepted before still become dead letters.",
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
    ...wholeNumber(BODY_BUFFER_BYTES_MIN, 2 ** 31 - 1, 64 * 1024 * 1024, 'bytes'),
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

const processes = {
  SLUICE_PROCESSES: {
    ...wholeNumber(1, 64, 1),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Processes of one gateway, which share its port and its limits. Use as many as cores are free. `npm start` runs only 1.',
    example: '2',
  },
} as const satisfies Settings;

const level = oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']);

const logs = {
  SLUICE_LOG_LEVEL: {
    allowed: level.allowed,
    schema: level.schema.default('info'),
    // `npm start` prints its own output to the terminal, so by default it logs only warnings and
    // errors.
    embeddedDefault: 'warn',
    usedBy: ['embedded', ...PARTS],
    meaning: 'Minimum level of logged lines.',
    example: 'info',
  },
} as const satisfies Settings;

/** The groups of settings, in the order of the documentation. */
export const GROUPS: readonly { readonly title: string; readonly settings: Settings }[] = [
  { title: 'Database', settings: database },
  { title: 'Kafka', settings: kafka },
  { title: 'Keys', settings: keys },
  { title: 'Listeners', settings: listeners },
  { title: 'Metrics', settings: metrics },
  { title: 'Processes', settings: processes },
  { title: 'Webhooks', settings: webhooks },
  { title: 'The command', settings: command },
  { title: 'Deadlines and limits', settings: limits },
  { title: 'Retention', settings: retention },
  { title: 'Logs', settings: logs },
];

/** Every setting by its name. */
export const SETTINGS = {
  ...database,
  ...kafka,
  ...keys,
  ...listeners,
  ...metrics,
  ...processes,
  ...webhooks,
  ...command,
  ...limits,
  ...retention,
  ...logs,
};

export type SettingName = keyof typeof SETTINGS;

/** Settings of the database that a command uses. */
export const DATABASE_SETTINGS = [
  'DATABASE_URL',
  'DATABASE_DIRECT_URL',
  'DATABASE_TLS_CA',
  'SLUICE_DATA_DIR',
] as const;
/** Settings of the connection to Kafka. */
export const KAFKA_SETTINGS = Object.keys(kafkaConnection) as (keyof typeof kafkaConnection)[];
/** Settings of the event log: the database with the embedded log, or Kafka, and the topics. */
export const LOG_SETTINGS = [...DATABASE_SETTINGS, ...KAFKA_SETTINGS, 'SLUICE_TOPIC_PREFIX'] as const;
export type DatabaseSetting = (typeof DATABASE_SETTINGS)[number];
export type KafkaSetting = (typeof KAFKA_SETTINGS)[number];
export type LogSetting = (typeof LOG_SETTINGS)[number];
