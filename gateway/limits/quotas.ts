import { singleFlight } from '../../shared/async.ts';
import type { Clock } from '../../shared/clock.ts';
import { errorMessage } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import { dayOf } from '../../shared/postgres/times.ts';
import type { TenantDay } from '../sql/tenant-usage.ts';

/** Where gateways tell each other what they counted. Both reject after a deadline of their own. */
export interface UsageStore {
  /** Writes this gateway's numbers; the same may come again. */
  write(days: readonly TenantDay[]): Promise<void>;
  /** What all others counted on a day. */
  readOthers(tenantIds: readonly string[], day: string): Promise<ReadonlyMap<string, number>>;
}

export interface QuotasOptions {
  readonly store: UsageStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two exchanges with the store. Default 1000. */
  readonly intervalMs?: number;
}

/** A tenant's present day, as far as this gateway knows. */
export interface QuotaDay {
  /** Records accepted, everywhere, and those under way here. */
  used(): number;
  /** Counts records that are under way, until it is told how many of them were accepted. */
  hold(count: number): { settle(accepted: number): void };
  /** Whole seconds until the day ends, at least 1. */
  secondsLeft(): number;
}

export interface Quotas {
  today(tenantId: string): QuotaDay;
  /** Writes what is not written yet. */
  close(): Promise<void>;
}

interface Count {
  readonly tenantId: string;
  readonly day: string;
  /** Accepted here; only ever rises. */
  accepted: number;
  /** Of those, what the store has. */
  written: number;
  underWay: number;
  others: number;
  /** Whether somebody asked since the others were read. */
  asked: boolean;
}

const DAY_MS = 86_400_000;

/**
 * Counts the records of tenants that have a quota. Requests never wait for the store: about once a second it is told
 * what was counted here and asked what others counted, so all gateways together overshoot by what comes in a second.
 * While the store is down they go on with what they know, and write it later. A process that is killed loses what it
 * counted since it last wrote.
 */
export function createQuotas({ store, clock, logger, intervalMs = 1000 }: QuotasOptions): Quotas {
  const counts = new Map<string, Count>();
  let failing = false;

  const exchange = singleFlight(async (): Promise<void> => {
    const today = dayOf(clock.nowMs());
    const unwritten = [...counts.values()].filter(({ accepted, written }) => accepted > written);
    const asked = [...counts.values()].filter((count) => count.asked && count.day === today);
    if (unwritten.length === 0 && asked.length === 0) return forgetPast(today);
    const days = unwritten.map(({ tenantId, day, accepted }) => ({ tenantId, day, records: accepted }));
    try {
      if (days.length > 0) await store.write(days);
      unwritten.forEach((count, i) => {
        count.written = days[i]!.records;
      });
      if (asked.length > 0) await readOthers(asked, today);
      if (failing) logger.info('quotas are counted in the database again');
      failing = false;
    } catch (error) {
      if (!failing) {
        const reason = errorMessage(error);
        logger.warn({ reason }, 'quotas go on with what is known: the database cannot be asked');
      }
      failing = true;
    }
    forgetPast(today);
  });

  async function readOthers(asked: readonly Count[], day: string): Promise<void> {
    for (const count of asked) count.asked = false;
    try {
      const others = await store.readOthers(
        asked.map(({ tenantId }) => tenantId),
        day,
      );
      for (const count of asked) count.others = others.get(count.tenantId) ?? 0;
    } catch (error) {
      for (const count of asked) count.asked = true;
      throw error;
    }
  }

  function forgetPast(today: string): void {
    for (const [name, { day, accepted, written, underWay }] of counts) {
      if (day !== today && underWay === 0 && written === accepted) counts.delete(name);
    }
  }

  function countOf(tenantId: string): Count {
    const day = dayOf(clock.nowMs());
    const name = `${tenantId} ${day}`;
    let count = counts.get(name);
    if (!count) {
      count = { tenantId, day, accepted: 0, written: 0, underWay: 0, others: 0, asked: true };
      counts.set(name, count);
      // What others counted before is not to be known only in a second.
      void exchange();
    }
    count.asked = true;
    return count;
  }

  const timer = setInterval(exchange, intervalMs);
  timer.unref();

  return {
    today(tenantId) {
      const count = countOf(tenantId);
      return {
        used: () => count.accepted + count.underWay + count.others,
        hold(held) {
          count.underWay += held;
          return {
            settle(accepted) {
              count.underWay -= held;
              count.accepted += accepted;
            },
          };
        },
        secondsLeft: () => Math.max(1, Math.ceil((DAY_MS - (clock.nowMs() % DAY_MS)) / 1000)),
      };
    },
    async close() {
      clearInterval(timer);
      await exchange.idle();
      await exchange();
      const records = [...counts.values()].reduce((sum, count) => sum + count.accepted - count.written, 0);
      if (records > 0) logger.warn({ records }, 'records of tenants with a quota are not in the database');
    },
  };
}
