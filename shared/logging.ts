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
 * The destination of log lines. pino's own destination is not used, because it blocks the process
 * while it retries a full disk for ever.
 */
export interface LogDestination extends DestinationStream {
  /** Sets the function that is called with the number of dropped lines, as {@link Output} does. */
  onDropped?(report: (lines: number) => void): void;
}

/**
 * Returns the logger of a process. The logger writes JSON lines with `service` and ISO times, and
 * reports lines that the destination dropped. Callers must not pass secrets to the logger;
 * redaction is only a second safeguard.
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
