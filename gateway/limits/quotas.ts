import { singleFlight } from '../../shared/async.ts';
import type { Clock } from '../../shared/clock.ts';
import { errorMessage } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import { dayOf } from '../../shared/postgres/times.ts';
import type { TenantDay } from '../sql/tenant-usage.ts';

/**
 * The store through which gateways exchange their counts. Both methods reject after their own
 * deadline.
 */
export interface UsageStore {
  /** Writes this gateway's counts; idempotent. */
  write(days: readonly TenantDay[]): Promise<void>;
  /** Reads the sums of the counts of all other gateways on a day, by tenant. */
  readOthers(tenantIds: readonly string[], day: string): Promise<ReadonlyMap<string, number>>;
}

export interface QuotasOptions {
  readonly store: UsageStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two exchanges with the store. Default 1000. */
  readonly intervalMs?: number;
}

/** The quota use of a tenant on the current day, as known to this gateway. */
export interface QuotaDay {
  /** Returns the records accepted by all gateways, plus the records in flight in this gateway. */
  used(): number;
  /** Counts records in flight until `settle` is called with the number that was accepted. */
  hold(count: number): { settle(accepted: number): void };
  /** Returns the whole seconds until the day ends, at least 1. */
  secondsLeft(): number;
}

interface Count {
  readonly tenantId: string;
  readonly day: string;
  /** Records accepted by this gateway; never decreases. */
  accepted: number;
  /** The part of `accepted` that has been written to the store. */
  written: number;
  inFlight: number;
  /** Records that other gateways accepted, as of the last read. */
  others: number;
  /** Whether a request used the count since `others` was read. */
  isUsed: boolean;
}

const DAY_MS = 86_400_000;

/**
 * Counts the records of tenants that have a daily quota. Requests never wait for the store: once
 * per interval this gateway writes its counts and reads the counts of other gateways. So all
 * gateways together exceed a quota by at most the records of one interval. While the store is down,
 * each gateway uses the last counts that it read, and retries its writes. A process that is killed
 * loses the counts since its last write.
 */
export class Quotas {
  private readonly options: QuotasOptions;
  /** The counts, by tenant and day. */
  private readonly counts = new Map<string, Count>();
  private readonly exchange = singleFlight(() => this.writeAndRead());
  private readonly timer: NodeJS.Timeout;
  private isFailing = false;

  constructor(options: QuotasOptions) {
    this.options = options;
    this.timer = setInterval(this.exchange, options.intervalMs ?? 1000).unref();
  }

  today(tenantId: string): QuotaDay {
    const count = this.countOf(tenantId);
    return {
      used: () => count.accepted + count.inFlight + count.others,
      hold(held) {
        count.inFlight += held;
        return {
          settle(accepted) {
            count.inFlight -= held;
            count.accepted += accepted;
          },
        };
      },
      secondsLeft: () => Math.max(1, Math.ceil((DAY_MS - (this.options.clock.nowMs() % DAY_MS)) / 1000)),
    };
  }

  /** Writes the counts that are not yet in the store. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.exchange.idle();
    await this.exchange();
    const records = [...this.counts.values()].reduce((sum, count) => sum + count.accepted - count.written, 0);
    if (records > 0) this.options.logger.warn({ records }, 'quota counts not written');
  }

  private countOf(tenantId: string): Count {
    const day = dayOf(this.options.clock.nowMs());
    const name = `${tenantId} ${day}`;
    let count = this.counts.get(name);
    if (!count) {
      count = { tenantId, day, accepted: 0, written: 0, inFlight: 0, others: 0, isUsed: true };
      this.counts.set(name, count);
      // Reads the counts of the other gateways immediately, not only after the interval.
      void this.exchange();
    }
    count.isUsed = true;
    return count;
  }

  private async writeAndRead(): Promise<void> {
    const { clock, logger } = this.options;
    const today = dayOf(clock.nowMs());
    const unwritten = [...this.counts.values()].filter(({ accepted, written }) => accepted > written);
    const used = [...this.counts.values()].filter((count) => count.isUsed && count.day === today);
    if (unwritten.length > 0 || used.length > 0) {
      try {
        if (unwritten.length > 0) await this.write(unwritten);
        if (used.length > 0) await this.readOthers(used, today);
        if (this.isFailing) logger.info('quota exchange recovered');
        this.isFailing = false;
      } catch (error) {
        if (!this.isFailing) logger.warn({ reason: errorMessage(error) }, 'quota exchange failed, retrying');
        this.isFailing = true;
      }
    }
    this.forgetPast(today);
  }

  private async write(unwritten: readonly Count[]): Promise<void> {
    const days = unwritten.map(({ tenantId, day, accepted }) => ({ tenantId, day, records: accepted }));
    await this.options.store.write(days);
    unwritten.forEach((count, i) => {
      count.written = days[i]!.records;
    });
  }

  private async readOthers(used: readonly Count[], day: string): Promise<void> {
    for (const count of used) count.isUsed = false;
    const tenantIds = used.map(({ tenantId }) => tenantId);
    try {
      const others = await this.options.store.readOthers(tenantIds, day);
      for (const count of used) count.others = others.get(count.tenantId) ?? 0;
    } catch (error) {
      for (const count of used) count.isUsed = true;
      throw error;
    }
  }

  private forgetPast(today: string): void {
    for (const [name, { day, accepted, written, inFlight }] of this.counts) {
      if (day !== today && inFlight === 0 && written === accepted) this.counts.delete(name);
    }
  }
}
