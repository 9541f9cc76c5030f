import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger };

/** Names whose values are redacted, at the top level of a log line and one and two levels below. */
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
 * Where log lines go. pino's own destination is not used: it retries a full disk for ever, and
 * blocks the process meanwhile.
 */
export interface LogDestination extends DestinationStream {
  /** As of {@link Output}: sets what is called with the number of lines that were dropped. */
  onDropped?(report: (lines: number) => void): void;
}

/**
 * Returns the logger of a process. It writes JSON lines with `service` and ISO times, and reports
 * lines that the destination dropped. Secrets are never passed to a logger; the redaction is a
 * second line of defence.
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
