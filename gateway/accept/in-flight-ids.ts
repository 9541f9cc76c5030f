import type { Kind } from '../../shared/contracts/kinds.ts';
import { type RecentId, RecentIds } from './recent-ids.ts';

/** The result of publishing the record of a claimed id. */
export type ClaimResult =
  /** The log has the record. */
  | { readonly outcome: 'accepted' }
  /** The store already has a record with this id and this content hash. */
  | { readonly outcome: 'stored'; readonly contentHash: string }
  /** The record is certainly not in the log, so the id is free again. */
  | { readonly outcome: 'failed' }
  /**
   * The record may be in the log. Only a record with the same content may use the id until the id
   * is evicted.
   */
  | { readonly outcome: 'unknown' };

export type Claim =
  /** The caller holds the id and must settle it; only the first call counts. */
  | { readonly state: 'claimed'; settle(result: ClaimResult): void }
  /** A record with this id and the same content was accepted before. */
  | { readonly state: 'accepted' }
  /** A record with this id and other content was accepted before. */
  | { readonly state: 'conflict' }
  /** The log may have a record with this id and other content. */
  | { readonly state: 'unavailable' }
  /**
   * Another request holds the id. Claim the id again once `settled` resolves; `settled` never
   * rejects.
   */
  | { readonly state: 'in-flight'; readonly settled: Promise<void> };

/** A record's id that the caller chose. */
export interface CallersId {
  readonly tenantId: string;
  readonly kind: Kind;
  readonly id: string;
}

export interface InFlightIdsOptions {
  /**
   * Milliseconds since an arbitrary moment. Default: the monotonic clock, so that setting back the
   * wall clock does not delay the eviction of ids.
   */
  readonly elapsedMs?: () => number;
  /**
   * Maximum number of recent ids. At the maximum, the tenant with the most ids evicts its oldest.
   * Default 200,000.
   */
  readonly recentMax?: number;
  /** Milliseconds after which a recent id is evicted. Default 10 minutes. */
  readonly memoryMs?: number;
}

interface Holder {
  readonly settled: Promise<void>;
  readonly release: () => void;
}

/**
 * The callers' ids that are in flight to the log, and recent ids with their results. If concurrent
 * requests have the same id, exactly one request publishes. The other requests, and later repeats,
 * are answered without a publish.
 */
export class InFlightIds {
  private readonly elapsedMs: () => number;
  /**
   * The ids in flight, by full id. Their number is bounded, since the publisher bounds the bytes in
   * flight.
   */
  private readonly holders = new Map<string, Holder>();
  private readonly recent: RecentIds;

  constructor(options: InFlightIdsOptions = {}) {
    const { elapsedMs = () => performance.now(), recentMax = 200_000, memoryMs = 600_000 } = options;
    this.elapsedMs = elapsedMs;
    this.recent = new RecentIds({ elapsedMs, idsMax: recentMax, memoryMs });
  }

  /**
   * Claims the id for a record with this content, or returns why the id is not free. Never waits.
   */
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

  /**
   * Returns the result to remember for the id. After a failed retry the previous result stays,
   * since the first attempt may still have reached the log.
   */
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

/**
 * Returns the id with its tenant and kind. Ids contain no control characters, so the separator is
 * unambiguous.
 */
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
