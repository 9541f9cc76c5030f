import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger };

/** Names whose values never reach a log line, at any of the depths at which our objects carry them. */
const SECRET_NAMES = [
  'secret',
  'secrets',
  'apiKeySecret',
  'password',
  'token',
  'auth',
  'ciphertext',
  'connectionString',
  'service-api-secret',
];

/**
 * The logger of one process: JSON lines on standard output with `service` and ISO times.
 * Secrets are kept out by never being passed in; the redaction is the second fence.
 */
export function createLogger(service: string, level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: { service },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: {
      paths: SECRET_NAMES.flatMap((name) => [`["${name}"]`, `*["${name}"]`, `*.*["${name}"]`]),
      censor: '[redacted]',
    },
  };
  return destination ? pino(options, destination) : pino(options);
}
