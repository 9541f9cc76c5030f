import { AppError } from '../../shared/errors.ts';
import type { HttpMiddleware } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';

/** AppError code (retryable) of work that did not get its turn in time. */
const TURN_TIMEOUT = 'TURN_TIMEOUT';

export interface TenantTurnsOptions {
  /** Turns at a time. */
  readonly runningMax: number;
  /** Of these, the turns of one tenant. */
  readonly tenantMax: number;
  /** Milliseconds that work waits for its turn at most. Default 5000. */
  readonly waitMaxMs?: number;
}

/**
 * Turns for work on the database: a limited number at a time, fewer of one tenant, and tenants one after another. So a
 * tenant with much work, or with slow work, keeps neither the connections nor the turns of others.
 */
export interface TenantTurns {
  /** Runs the work in a turn of its tenant. Rejects with AppError TURN_TIMEOUT (retryable) where it waited for too long. */
  run<T>(tenantId: string, work: () => Promise<T>): Promise<T>;
}

export function createTenantTurns(options: TenantTurnsOptions): TenantTurns {
  const { runningMax, tenantMax, waitMaxMs = 5000 } = options;
  let running = 0;
  const runningOf = new Map<string, number>();
  /** What waits, by tenant; the tenant whose turn is next comes first. Work that gave up is removed. */
  const lines = new Map<string, Set<() => void>>();

  function startNext(): void {
    for (const [tenantId, line] of lines) {
      if (running >= runningMax) return;
      const ofTenant = runningOf.get(tenantId) ?? 0;
      if (ofTenant >= tenantMax) continue;
      const [begin] = line;
      lines.delete(tenantId);
      line.delete(begin!);
      // A served tenant moves to the back, where this loop meets it again.
      if (line.size > 0) lines.set(tenantId, line);
      running += 1;
      runningOf.set(tenantId, ofTenant + 1);
      begin!();
    }
  }

  function end(tenantId: string): void {
    running -= 1;
    const left = runningOf.get(tenantId)! - 1;
    if (left === 0) runningOf.delete(tenantId);
    else runningOf.set(tenantId, left);
    startNext();
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
        const message = 'too much work on the database waits for its turn';
        reject(new AppError(TURN_TIMEOUT, message, { retryable: true }));
      }, waitMaxMs);
      lines.set(tenantId, line.add(begin));
      startNext();
    });
  }

  return {
    async run(tenantId, work) {
      await untilTurn(tenantId);
      try {
        return await work();
      } finally {
        end(tenantId);
      }
    },
  };
}

/** Runs the operation in a turn of the caller's tenant; 503-01 where none comes in time. Placed directly before it. */
export function inTenantTurn(turns: TenantTurns): HttpMiddleware {
  return async (c, next) => {
    let begun = false;
    try {
      return await turns.run(c.get('apiKey').tenantId, () => {
        begun = true;
        return next();
      });
    } catch (error) {
      if (begun) throw error;
      c.set('cause', error);
      return fail(c, '503-01');
    }
  };
}
