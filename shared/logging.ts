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

/** Where log lines go. pino's own destination retries a full disk for ever and blocks the process while it does. */
export interface LogDestination extends DestinationStream {
  /** As of {@link Output}: sets what is called with the number of lines that were dropped. */
  onDropped?(report: (lines: number) => void): void;
}

/**
 * The logger of one process: JSON lines with `service` and ISO times, and a line with the number of lines that the
 * destination dropped. Secrets are kept out by never being passed in; the redaction is the second fence.
 */
export function createLogger(service: string, level: string, destination: LogDestination): Logger {
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
  const logger = pino(options, destination);
  destination.onDropped?.((lines) => logger.warn({ lines }, 'log lines dropped'));
  return logger;
}
