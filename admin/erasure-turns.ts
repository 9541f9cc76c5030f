import { AppError } from '../shared/errors.ts';

/** AppError code (retryable) of a step that did not get its turn in time. */
const ERASURES_BUSY = 'ERASURES_BUSY';

export interface ErasureTurnsOptions {
  /** Steps at a time. Default 2. */
  readonly runningMax?: number;
  /** Milliseconds that a step waits for its turn at most. Default 5000. */
  readonly waitMaxMs?: number;
}

/**
 * Turns for the steps of erasures: few at a time, one of a tenant, tenants one after another. So many erasures of one
 * tenant, or large ones, keep neither the database's connections nor the erasures of others waiting.
 */
export interface ErasureTurns {
  /** Runs a step in a turn of its tenant. Rejects with AppError ERASURES_BUSY where it waited for too long. */
  run<T>(tenantId: string, step: () => Promise<T>): Promise<T>;
}

export function createErasureTurns(options: ErasureTurnsOptions = {}): ErasureTurns {
  const { runningMax = 2, waitMaxMs = 5000 } = options;
  const running = new Set<string>();
  /** What waits, by tenant; the tenant whose turn is next comes first. Steps that gave up are removed. */
  const lines = new Map<string, Set<() => void>>();

  function startNext(): void {
    for (const [tenantId, line] of lines) {
      if (running.size >= runningMax) return;
      if (running.has(tenantId)) continue;
      const [begin] = line;
      lines.delete(tenantId);
      line.delete(begin!);
      // A served tenant moves to the back.
      if (line.size > 0) lines.set(tenantId, line);
      running.add(tenantId);
      begin!();
    }
  }

  function untilTurn(tenantId: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        clearTimeout(timer);
        resolve();
      };
      const line = lines.get(tenantId) ?? new Set();
      const timer = setTimeout(() => {
        line.delete(begin);
        if (line.size === 0 && lines.get(tenantId) === line) lines.delete(tenantId);
        reject(new AppError(ERASURES_BUSY, 'too many erasures wait for their turn', { retryable: true }));
      }, waitMaxMs);
      lines.set(tenantId, line.add(begin));
      startNext();
    });
  }

  return {
    async run(tenantId, step) {
      await untilTurn(tenantId);
      try {
        return await step();
      } finally {
        running.delete(tenantId);
        startNext();
      }
    },
  };
}
