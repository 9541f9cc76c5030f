import { hash, randomBytes } from 'node:crypto';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { RecentIds } from './recent-ids.ts';

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
  | { readonly state: 'known' }
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
   * Default 1,000,000, which take 61 MB.
   */
  readonly recentMax?: number;
  /** Milliseconds after which a recent id is evicted. Default 10 minutes. */
  readonly memoryMs?: number;
}

/** A request that holds an id. The promise exists only if another request waits for the id. */
interface Holder {
  settled: Promise<void> | undefined;
  release: (() => void) | undefined;
}

const RECENT_MAX = 1_000_000;
const MEMORY_MS = 600_000;
const SALT_BYTES = 16;

/**
 * The callers' ids that are in flight to the log, and recent ids with their results. If concurrent
 * requests have the same id, exactly one request publishes. The other requests, and later repeats,
 * are answered without a publish.
 */
export class InFlightIds {
  /**
   * The ids in flight, by key. Their number is bounded, since the publisher bounds the bytes in
   * flight.
   */
  private readonly holders = new Map<string, Holder>();
  private readonly recent: RecentIds;
  /** With this secret part of every key, callers cannot choose ids that share a bucket. */
  private readonly salt = randomBytes(SALT_BYTES).toString('hex');

  constructor(options: InFlightIdsOptions = {}) {
    const { elapsedMs = () => performance.now(), recentMax = RECENT_MAX, memoryMs = MEMORY_MS } = options;
    this.recent = new RecentIds({ elapsedMs, idsMax: recentMax, memoryMs });
  }

  /**
   * Claims the id for a record with this content, or returns why the id is not free. Never waits.
   */
  claim(id: CallersId, contentHash: string): Claim {
    const key = this.keyOf(id);
    const holder = this.holders.get(key);
    if (holder) return { state: 'in-flight', settled: settledPromise(holder) };
    const previous = this.recent.get(key, contentHash);
    if (previous?.isCertain) return { state: previous.isSame ? 'known' : 'conflict' };
    if (previous && !previous.isSame) return { state: 'unavailable' };
    return this.hold(id.tenantId, key, contentHash);
  }

  /**
   * Returns a hash of the id with its tenant and kind. Ids contain no control characters, so the
   * separator is unambiguous.
   */
  private keyOf({ tenantId, kind, id }: CallersId): string {
    return hash('sha256', `${this.salt}${tenantId}\u0000${kind}\u0000${id}`, 'base64');
  }

  private hold(tenantId: string, key: string, contentHash: string): Claim {
    const holder: Holder = { settled: undefined, release: undefined };
    this.holders.set(key, holder);
    return {
      state: 'claimed',
      settle: (result) => {
        if (this.holders.get(key) !== holder) return;
        this.holders.delete(key);
        this.remember(tenantId, key, contentHash, result);
        holder.release?.();
      },
    };
  }

  /**
   * Remembers the result for the id. After a failed retry the previous result stays, since the
   * first attempt may still have reached the log.
   */
  private remember(tenantId: string, key: string, contentHash: string, result: ClaimResult): void {
    if (result.outcome === 'failed') return;
    const stored = result.outcome === 'stored' ? result.contentHash : contentHash;
    this.recent.set(tenantId, key, stored, result.outcome !== 'unknown');
  }
}

function settledPromise(holder: Holder): Promise<void> {
  holder.settled ??= new Promise((resolve) => {
    holder.release = resolve;
  });
  return holder.settled;
}
