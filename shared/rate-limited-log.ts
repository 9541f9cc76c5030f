import type { Logger } from './logging.ts';

/** A log for lines that remote callers can cause at any rate. */
export interface RateLimitedLog {
  /**
   * Logs a line. `kind` separates lines with the same message, and must not come from a caller.
   */
  info(fields: object, message: string, kind?: string): void;
  warn(fields: object, message: string, kind?: string): void;
  error(fields: object, message: string, kind?: string): void;
}

export interface RateLimitedLogOptions {
  /** Number of lines of a kind that are written immediately. Default 1. */
  readonly burst?: number;
  /** Milliseconds between two lines of a kind after the burst. Default 1000. */
  readonly intervalMs?: number;
  /** Called with the number of lines that a line stands for in addition to itself. */
  readonly onLeftOut?: (lines: number) => void;
}

type Level = 'info' | 'warn' | 'error';

/** The lines of one kind. */
interface Kind {
  /** Number of lines that may be written immediately. */
  free: number;
  /** Number of lines since the last one that was written. */
  count: number;
  write(count: number): void;
}

const INTERVAL_MS = 1000;

/**
 * Writes the first lines of each kind (level, message and `kind`) immediately. Then writes at most
 * one line per interval: the latest one, with the number of lines that it represents as `count`.
 * Each interval without a line permits another one to be written immediately.
 */
export function createRateLimitedLog(logger: Logger, options: RateLimitedLogOptions = {}): RateLimitedLog {
  const { burst = 1, intervalMs = INTERVAL_MS, onLeftOut } = options;
  const kinds = new Map<string, Kind>();

  function log(level: Level, fields: object, message: string, name = ''): void {
    if (!logger.isLevelEnabled(level)) return;
    const key = `${level} ${message} ${name}`;
    const kind = kinds.get(key) ?? startKind(key);
    if (kind.free > 0) {
      kind.free -= 1;
      logger[level](fields, message);
      return;
    }
    kind.count += 1;
    kind.write = (count) => logger[level]({ ...fields, count }, message);
  }

  function startKind(key: string): Kind {
    const kind: Kind = { free: burst, count: 0, write() {} };
    kinds.set(key, kind);
    const timer = setInterval(() => {
      if (kind.count > 0) {
        kind.write(kind.count);
        onLeftOut?.(kind.count - 1);
        kind.count = 0;
        return;
      }
      kind.free += 1;
      if (kind.free < burst) return;
      clearInterval(timer);
      kinds.delete(key);
    }, intervalMs).unref();
    return kind;
  }

  return {
    info: (fields, message, kind) => log('info', fields, message, kind),
    warn: (fields, message, kind) => log('warn', fields, message, kind),
    error: (fields, message, kind) => log('error', fields, message, kind),
  };
}
