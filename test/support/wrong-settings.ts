import type { SettingName } from '../../shared/config/config.ts';

/** Part of every wrong value that may be a secret, so that a leak of the value is detected. */
export const PLANTED = 'planted-s3cret';

const DATABASE_URL =
  'must be a postgres:// URL, in whose user and password @ is written %40, : %3A, / %2F, ? %3F, # %23 and % %25';
const ORIGINS =
  'must be origins such as https://portal.example.com, several separated by commas, without paths and *';
const BROKERS = 'must be host:port, several separated by commas, IPv6 addresses as [::1]:9092';
const KEYS = 'must be id:key entries separated by commas, each id once, each key 32 bytes in base64';
const HTTP_URL = 'must be an http:// or https:// address without user, password, ? and #';

/**
 * One wrong value per setting that can be wrong by itself, and the exact error text between the
 * setting's name and the example.
 */
export const WRONG: readonly (readonly [SettingName, string, string])[] = [
  ['DATABASE_URL', `mysql://u:${PLANTED}@db/x`, DATABASE_URL],
  ['DATABASE_URL', `postgres://u:${PLANTED}/@db/x`, DATABASE_URL],
  ['DATABASE_URL', `postgres://u:1${PLANTED}#@db/x`, DATABASE_URL],
  ['DATABASE_URL', 'postgres://u@db:99999/x', DATABASE_URL],
  [
    'DATABASE_URL',
    `postgres://u:${PLANTED}@db/x?sslmode=on`,
    'has an sslmode that is not known: it must be disable, require, verify-full or no-verify',
  ],
  [
    'DATABASE_URL',
    'postgres://db/x?sslrootcert=/nowhere',
    'has an sslrootcert that names a file that cannot be read (ENOENT)',
  ],
  ['DATABASE_DIRECT_URL', `mysql://u:${PLANTED}@db/x`, DATABASE_URL],
  [
    'DATABASE_DIRECT_URL',
    `postgres://u:${PLANTED}@db/x?sslmode=verify`,
    'has an sslmode that is not known: it must be disable, require, verify-full or no-verify',
  ],
  ['DATABASE_TLS_CA', '/nowhere', 'names a file that cannot be read (ENOENT)'],
  ['DATABASE_TLS_CA', 'package.json', 'names a file that holds no certificate in PEM form'],
  ['SLUICE_DATABASE_CONNECTIONS', '9', 'must be a whole number from 10 to 1000'],
  ['KAFKA_BROKERS', 'kafka', BROKERS],
  ['KAFKA_BROKERS', 'a:9092,', BROKERS],
  ['KAFKA_BROKERS', 'kafka://a:9092', BROKERS],
  ['KAFKA_BROKERS', 'a:99999', BROKERS],
  ['KAFKA_BROKERS', '::1:9092', BROKERS],
  ['KAFKA_BROKERS', '[1]:9092', BROKERS],
  ['KAFKA_SASL_MECHANISM', 'gssapi', 'must be one of plain, scram-sha-256, scram-sha-512'],
  ['KAFKA_TLS', 'yes', 'must be on or off'],
  ['KAFKA_TLS_CA', '/nowhere', 'names a file that cannot be read (ENOENT)'],
  ['KAFKA_TLS_CERT', 'package.json', 'names a file that holds no certificate in PEM form'],
  ['KAFKA_TLS_KEY', 'package.json', 'names a file that holds no private key in PEM form'],
  ['SLUICE_KAFKA_SESSION_MS', '30s', 'must be a whole number of milliseconds from 6000 to 300000'],
  ['SLUICE_TOPIC_PREFIX', 'my topics', "must be at most 100 letters, digits, '.', '_' or '-'"],
  ['SLUICE_CREDENTIALS_KEYS', PLANTED, KEYS],
  ['SLUICE_CREDENTIALS_KEYS', `a:${Buffer.from(PLANTED).toString('base64')}`, KEYS],
  ['SLUICE_CREDENTIALS_KEYS', [1, 2].map((n) => `a:${Buffer.alloc(32, n).toString('base64')}`).join(), KEYS],
  ['SLUICE_CREDENTIALS_TTL_HOURS', '0', 'must be a whole number of hours from 1 to 8760'],
  ['PORT', 'http', 'must be a whole number from 0 to 65535'],
  ['PORT', '65536', 'must be a whole number from 0 to 65535'],
  ['HOST', 'http://0.0.0.0', 'must be an address or a host name, without a port'],
  ['ADMIN_PORT', '-1', 'must be a whole number from 0 to 65535'],
  ['ADMIN_HOST', '127.0.0.1:8081', 'must be an address or a host name, without a port'],
  ['SLUICE_ADMIN_ORIGINS', '*', ORIGINS],
  ['SLUICE_ADMIN_ORIGINS', 'null', ORIGINS],
  ['SLUICE_ADMIN_ORIGINS', 'portal.example.com', ORIGINS],
  ['SLUICE_ADMIN_ORIGINS', 'https://portal.example.com/', ORIGINS],
  ['SLUICE_ADMIN_ORIGINS', 'https://*.example.com', ORIGINS],
  ['SLUICE_ADMIN_ORIGINS', 'https://a.example.com,ftp://b.example.com', ORIGINS],
  ['WORKER_PORT', '80.5', 'must be a whole number from 0 to 65535'],
  ['WORKER_HOST', '[::1]', 'must be an address or a host name, without a port'],
  ['SLUICE_PROCESSES', 'two', 'must be a whole number from 1 to 64'],
  ['SLUICE_PROCESSES', '0', 'must be a whole number from 1 to 64'],
  ['SLUICE_PROCESSES', '65', 'must be a whole number from 1 to 64'],
  ['SLUICE_PROCESSES', '1.5', 'must be a whole number from 1 to 64'],
  ['SLUICE_WEBHOOK_ALLOW', '10.0.0.0', 'must be CIDR or CIDR:ports, several separated by commas'],
  ['SLUICE_URL', 'localhost:8080', HTTP_URL],
  ['SLUICE_URL', `http://u:${PLANTED}@localhost`, HTTP_URL],
  ['SLUICE_URL', 'http://localhost:99999', HTTP_URL],
  ['SLUICE_API_KEY_ID', 'the key', 'must be printable ASCII without spaces'],
  ['SLUICE_API_KEY_SECRET', `${PLANTED}\n`, 'must be printable ASCII without spaces'],
  ['SLUICE_PUBLISH_DEADLINE_MS', '5', 'must be a whole number of milliseconds from 100 to 60000'],
  ['SLUICE_PUBLISH_BUFFER_BYTES', '64MB', 'must be a whole number of bytes from 8388608 to 2147483647'],
  [
    'SLUICE_DEAD_LETTERS_BYTES_MAX',
    '1048575',
    'must be a whole number of bytes from 1048576 to 9007199254740991',
  ],
  ['SLUICE_GATEWAYS', '0', 'must be a whole number from 1 to 1000'],
  ['SLUICE_CONNECTIONS_MAX', '9', 'must be a whole number from 10 to 1000000'],
  ['SLUICE_TRUSTED_HOPS', '-1', 'must be a whole number from 0 to 10'],
  ['SLUICE_KEEP_ALIVE_MS', '10min', 'must be a whole number of milliseconds from 1000 to 3600000'],
  ['SLUICE_DATABASE_PIPELINING', 'no', 'must be on or off'],
  ['SLUICE_DOCS', 'no', 'must be on or off'],
  ['SLUICE_BODY_BUFFER_BYTES', '33554431', 'must be a whole number of bytes from 33554432 to 2147483647'],
  ['SLUICE_WEBHOOK_ENDPOINTS_MAX', '0', 'must be a whole number from 1 to 1000'],
  ['SLUICE_ADMIN_RATE', 'none', 'must be a whole number from 1 to 1000000'],
  ['SLUICE_RETENTION_AGENTS_DAYS', '7', 'must be a whole number of days from 8 to 36500'],
  ['SLUICE_RETENTION_CONVERSATIONS_DAYS', '7', 'must be a whole number of days from 8 to 36500'],
  ['SLUICE_RETENTION_MESSAGES_DAYS', '7', 'must be a whole number of days from 8 to 36500'],
  ['SLUICE_RETENTION_EVENTS_DAYS', '7', 'must be a whole number of days from 8 to 36500'],
  ['SLUICE_RETENTION_CREDENTIALS_DAYS', '7', 'must be a whole number of days from 8 to 36500'],
  ['SLUICE_RETENTION_WEBHOOKS_DAYS', '7', 'must be a whole number of days from 8 to 36500'],
  ['SLUICE_RETENTION_AUDIT_DAYS', '7', 'must be a whole number of days from 8 to 36500'],
  ['SLUICE_ERASED_IDS_DAYS', '7', 'must be a whole number of days from 8 to 36500'],
  ['SLUICE_KEYS_PER_DAY', '0', 'must be a whole number from 1 to 1000000'],
  ['SLUICE_DRAIN_DELAY_MS', '1e3', 'must be a whole number of milliseconds from 0 to 86400000'],
  ['SLUICE_SHUTDOWN_GRACE_MS', '0', 'must be a whole number of milliseconds from 1000 to 600000'],
  ['SLUICE_LOG_LEVEL', 'verbose', 'must be one of trace, debug, info, warn, error, fatal, silent'],
];

/** Wrong values of settings that are replaced by their defaults, with a warning. */
export const IGNORED: typeof WRONG = [
  ['METRICS_PORT', 'off', 'must be a whole number from 0 to 65535'],
  ['METRICS_HOST', 'http://127.0.0.1', 'must be an address or a host name, without a port'],
  ['SLUICE_METRICS_TENANTS', '1001', 'must be a whole number from 0 to 1000'],
];
