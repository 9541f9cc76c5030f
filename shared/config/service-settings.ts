import { anyText, brokers, databaseUrl, keyRing, oneOf, text, wholeNumber } from './schemas.ts';
import { KAFKA_USERS, PARTS, type Settings, WORKERS } from './setting.ts';

/** The settings of the services that Sluice uses: Postgres, Kafka and the key ring. */

const onOrOff = oneOf(['on', 'off']);
const certificates = anyText('the path of a file with certificates in PEM form');

export const database = {
  DATABASE_URL: {
    allowed: databaseUrl.allowed,
    schema: databaseUrl.schema.optional(),
    usedBy: [...PARTS, 'cli'],
    requiredBy: PARTS,
    meaning:
      'URL of your own Postgres, 15 or later. It may contain sslmode (disable, verify-full, no-verify) and sslrootcert. `npm start` uses its own Postgres instead.',
    example: 'postgres://sluice:password@localhost:5432/sluice',
  },
  DATABASE_DIRECT_URL: {
    allowed: databaseUrl.allowed,
    schema: databaseUrl.schema.optional(),
    usedBy: ['worker', 'cli'],
    meaning:
      'URL of the same database without a pooler. Set it if DATABASE_URL leads through a pooler in transaction mode: the webhook worker then listens for notifications there, with one connection. Unset: it finds webhooks by polling, up to 1 s later.',
    example: 'postgres://sluice:password@postgres:5432/sluice',
  },
  DATABASE_TLS_CA: {
    allowed: certificates.allowed,
    schema: certificates.schema.optional(),
    usedBy: [...PARTS, 'cli'],
    meaning:
      'CA certificates to verify the server of DATABASE_URL and DATABASE_DIRECT_URL and its name, as sslmode=verify-full does. Unset: those that Node knows, if sslmode requests TLS.',
    example: '/etc/sluice/postgres-ca.pem',
  },
  SLUICE_DATABASE_CONNECTIONS: {
    ...wholeNumber(10, 1000, 16),
    usedBy: ['embedded', ...PARTS],
    meaning: 'Maximum database connections per process. `npm start` opens 6 more for its admin listener.',
    example: '16',
  },
  SLUICE_DATABASE_PIPELINING: {
    allowed: onOrOff.allowed,
    schema: onOrOff.schema.default('on'),
    usedBy: ['embedded', ...WORKERS],
    meaning:
      'Sends statements of a transaction to Postgres before it has answered the previous ones, and prepares them, which saves round trips and planning. Turn it off for a pooler that does not forward them in order. If a pooler loses a prepared statement, the process prepares no more.',
    example: 'off',
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
const prefix = text("at most 100 letters, digits, '.', '_' or '-'", (given) =>
  /^[a-zA-Z0-9._-]{0,100}$/.test(given),
);

/** The settings of the connection to Kafka. */
export const kafkaConnection = {
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

export const kafka = {
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
    usedBy: ['embedded', ...KAFKA_USERS, 'admin'],
    meaning: 'Prefix of the names of topics and consumer groups.',
    example: 'sluice.',
  },
} as const satisfies Settings;

export const keys = {
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
