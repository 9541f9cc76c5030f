import type { Kind } from '../../shared/contracts/kinds.ts';
import { type RecentId, RecentIds } from './recent-ids.ts';

/** The result of the publish of a claimed id. */
export type ClaimResult =
  /** The log has the record. */
  | { readonly outcome: 'accepted' }
  /** The store has a record with this id already, with this content. */
  | { readonly outcome: 'stored'; readonly contentHash: string }
  /** Certainly not in the log: the id is free again. */
  | { readonly outcome: 'failed' }
  /** May be in the log: until the id is forgotten, only the same content may use it. */
  | { readonly outcome: 'unknown' };

export type Claim =
  /** The caller holds the id and must settle it; only the first call counts. */
  | { readonly state: 'claimed'; settle(result: ClaimResult): void }
  /** Accepted before with the same content: nothing is left to do. */
  | { readonly state: 'accepted' }
  /** Accepted before with other content. */
  | { readonly state: 'conflict' }
  /** Other content may be in the log under this id. */
  | { readonly state: 'unavailable' }
  /** Another request holds the id; claim it again once `settled` resolves (it never rejects). */
  | { readonly state: 'in-flight'; readonly settled: Promise<void> };

/** An id that a caller gave a record. */
export interface CallersId {
  readonly tenantId: string;
  readonly kind: Kind;
  readonly id: string;
}

export interface InFlightIdsOptions {
  /**
   * Milliseconds since an arbitrary moment. Default: the monotonic clock, so that ids are not
   * remembered for longer when the wall clock is set back.
   */
  readonly elapsedMs?: () => number;
  /**
   * Maximum number of recent ids; without room, the tenant with the most loses its oldest. Default
   * 200,000.
   */
  readonly recentMax?: number;
  /** Milliseconds for which a recent id is remembered. Default 10 minutes. */
  readonly memoryMs?: number;
}

interface Holder {
  readonly settled: Promise<void>;
  readonly release: () => void;
}

/**
 * The callers' ids that are in flight to the log, and the recent ones with their results. Of
 * concurrent requests with one id exactly one publishes; its repeats are answered without a
 * publish.
 */
export class InFlightIds {
  private readonly elapsedMs: () => number;
  /** By full id. As many as the requests in flight carry, which the publisher's memory bounds. */
  private readonly holders = new Map<string, Holder>();
  private readonly recent: RecentIds;

  constructor(options: InFlightIdsOptions = {}) {
    const { elapsedMs = () => performance.now(), recentMax = 200_000, memoryMs = 600_000 } = options;
    this.elapsedMs = elapsedMs;
    this.recent = new RecentIds({ elapsedMs, idsMax: recentMax, memoryMs });
  }

  /** Claims the id for a record with this content, or returns why it is not free. Never waits. */
  claim(id: CallersId, contentHash: string): Claim {
    const fullId = fullIdOf(id);
    const holder = this.holders.get(fullId);
    if (holder) return { state: 'in-flight', settled: holder.settled };
    const previous = this.recent.get(fullId);
    if (previous) {
      const isSame = previous.contentHash === contentHash;
      if (previous.isCertain) return { state: isSame ? 'accepted' : 'conflict' };
      if (!isSame) return { state: 'unavailable' };
    }
    return this.hold(id.tenantId, fullId, contentHash, previous);
  }

  private hold(tenantId: string, fullId: string, contentHash: string, previous: RecentId | undefined): Claim {
    const holder = createHolder();
    this.holders.set(fullId, holder);
    return {
      state: 'claimed',
      settle: (result) => {
        if (this.holders.get(fullId) !== holder) return;
        this.holders.delete(fullId);
        const recent = this.toRemember(result, contentHash, previous);
        if (recent) this.recent.set(tenantId, fullId, recent);
        else this.recent.delete(fullId);
        holder.release();
      },
    };
  }

  /** A failed retry proves nothing about the first attempt, whose outcome stays unknown. */
  private toRemember(
    result: ClaimResult,
    contentHash: string,
    previous: RecentId | undefined,
  ): RecentId | undefined {
    const sinceMs = this.elapsedMs();
    switch (result.outcome) {
      case 'accepted':
        return { contentHash, isCertain: true, sinceMs };
      case 'stored':
        return { contentHash: result.contentHash, isCertain: true, sinceMs };
      case 'unknown':
        return { contentHash, isCertain: false, sinceMs };
      case 'failed':
        return previous;
    }
  }
}

/** Ids hold no control characters, so the separator is unambiguous. */
function fullIdOf({ tenantId, kind, id }: CallersId): string {
  return `${tenantId}\u0000${kind}\u0000${id}`;
}

function createHolder(): Holder {
  let release = () => {};
  const settled = new Promise<void>((resolve) => {
    release = resolve;
  });
  return { settled, release };
}
