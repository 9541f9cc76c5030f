import { withDeadline } from '../../shared/async.ts';
import { Counts } from '../../shared/counts.ts';
import { AppError } from '../../shared/errors.ts';
import { FairQueue } from '../../shared/fair-queue.ts';
import type { Handler } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';

/** AppError code (retryable) of work that got no slot within `waitMaxMs`. */
const SLOT_TIMEOUT = 'SLOT_TIMEOUT';

export interface TenantSlotsOptions {
  /** Maximum work that runs concurrently. */
  readonly runningMax: number;
  /** Maximum work of one tenant that runs concurrently. */
  readonly tenantMax: number;
  /** Maximum milliseconds that work waits for a slot. Default 5000. */
  readonly waitMaxMs?: number;
}

interface Waiter {
  readonly tenantId: string;
  readonly start: () => void;
}

/**
 * A semaphore for work on the database, with a limit per tenant; waiting tenants are served
 * round-robin. So a tenant with much or slow work cannot exhaust the database connections.
 */
export class TenantSlots {
  private readonly options: TenantSlotsOptions;
  private readonly waiting = new FairQueue<Waiter>();
  /** Work that runs, by tenant. */
  private readonly running = new Counts();

  constructor(options: TenantSlotsOptions) {
    this.options = options;
  }

  /**
   * Runs the work in a slot of its tenant. Rejects with AppError SLOT_TIMEOUT (retryable) if no
   * slot is free within `waitMaxMs`.
   */
  async run<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
    await this.acquire(tenantId);
    try {
      return await work();
    } finally {
      this.running.remove(tenantId);
      this.startNext();
    }
  }

  private async acquire(tenantId: string): Promise<void> {
    let start = (): void => {};
    const started = new Promise<void>((resolve) => {
      start = resolve;
    });
    const waiter = { tenantId, start };
    this.waiting.add(tenantId, waiter);
    this.startNext();
    const timeoutError = () => {
      this.waiting.remove(tenantId, waiter);
      return new AppError(SLOT_TIMEOUT, 'too much work on the database is waiting', { retryable: true });
    };
    await withDeadline(started, this.options.waitMaxMs ?? 5000, timeoutError);
  }

  private startNext(): void {
    while (this.running.total < this.options.runningMax) {
      const [waiter] = this.waiting.takeTurn((items) => this.firstWithSlot(items));
      if (!waiter) return;
      this.running.add(waiter.tenantId);
      waiter.start();
    }
  }

  /** Returns the first waiter of a tenant, or none if the tenant has all its slots in use. */
  private firstWithSlot(waiters: ReadonlySet<Waiter>): readonly Waiter[] {
    const [first] = waiters;
    return this.running.of(first!.tenantId) < this.options.tenantMax ? [first!] : [];
  }
}

/**
 * Returns a handler that runs the operation in a slot of the caller's tenant. Answers 503-01 if no
 * slot is free in time.
 */
export function inTenantSlot(slots: TenantSlots, handle: Handler): Handler {
  return async (c) => {
    let hasStarted = false;
    try {
      return await slots.run(c.get('apiKey').tenantId, async () => {
        hasStarted = true;
        return await handle(c);
      });
    } catch (error) {
      if (hasStarted) throw error;
      c.set('cause', error);
      return fail(c, '503-01');
    }
  };
}
