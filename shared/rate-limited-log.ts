import type { Logger } from './logging.ts';

/** A log for lines that remote callers can cause at any rate. */
export interface RateLimitedLog {
  /**
   * Logs a warning. `kind` separates lines with the same message, and must not come from a caller.
   */
  warn(fields: object, message: string, kind?: string): void;
  error(fields: object, message: string, kind?: string): void;
}

type Level = 'warn' | 'error';

interface Repeated {
  /** Number of lines of the kind since the last one that was written. */
  count: number;
  write(count: number): void;
}

const INTERVAL_MS = 1000;

/**
 * Writes the first line of each kind (level, message and `kind`) immediately. Then writes at most
 * one line per interval, which is a second: the latest one, with the number of lines that it
 * represents as `count`.
 */
export function createRateLimitedLog(logger: Logger, intervalMs = INTERVAL_MS): RateLimitedLog {
  const recent = new Map<string, Repeated>();

  function log(level: Level, fields: object, message: string, kind = ''): void {
    const key = `${level} ${message} ${kind}`;
    const repeated = recent.get(key);
    if (repeated === undefined) {
      logger[level](fields, message);
      startInterval(key);
      return;
    }
    repeated.count += 1;
    repeated.write = (count) => logger[level]({ ...fields, count }, message);
  }

  function startInterval(key: string): void {
    const repeated: Repeated = { count: 0, write() {} };
    recent.set(key, repeated);
    setTimeout(() => {
      recent.delete(key);
      if (repeated.count === 0) return;
      repeated.write(repeated.count);
      startInterval(key);
    }, intervalMs).unref();
  }

  return {
    warn: (fields, message, kind) => log('warn', fields, message, kind),
    error: (fields, message, kind) => log('error', fields, message, kind),
  };
}
