import type { Kind } from '../../shared/contracts/kinds.ts';
import { createSettledKeys, type Settled } from './recent-ids.ts';

/** What became of a key that was reserved. */
export type Settlement =
  /** The log has the record. */
  | { readonly as: 'accepted' }
  /** The store has a record of this key already, with this content. */
  | { readonly as: 'stored'; readonly contentHash: string }
  /** Certainly not in the log: the key is free again. */
  | { readonly as: 'failed' }
  /** May be in the log: until the memory forgets it, only the same content may use the key. */
  | { readonly as: 'unknown' };

export type Reservation =
  /** The caller holds the key and must settle it; only the first settlement counts. */
  | { readonly state: 'reserved'; settle(settlement: Settlement): void }
  /** Accepted before with the same content: nothing is left to do. */
  | { readonly state: 'accepted' }
  /** Accepted before with other content. */
  | { readonly state: 'conflict' }
  /** Other content may be in the log under this key. */
  | { readonly state: 'unavailable' }
  /** Another request holds the key; ask again once `settled` resolves (it never rejects). */
  | { readonly state: 'held'; readonly settled: Promise<void> };

/** An id that a caller gave a record. */
export interface CallersId {
  readonly tenantId: string;
  readonly kind: Kind;
  readonly id: string;
}

export interface Reservations {
  /** Takes the id for a record with this content, or tells who has it. Never waits. */
  reserve(id: CallersId, contentHash: string): Reservation;
}

export interface ReservationOptions {
  /**
   * Milliseconds that have passed since some moment. Default: the monotonic clock, as what is remembered must not last
   * longer because somebody set the wall clock back.
   */
  readonly elapsedMs?: () => number;
  /** Settled keys remembered at most; of the tenant that has the most, the oldest goes first. Default 200,000. */
  readonly settledMax?: number;
  /** Milliseconds that a settled key is remembered. Default 10 minutes. */
  readonly memoryMs?: number;
}

interface Held {
  readonly settled: Promise<void>;
  readonly wake: () => void;
}

/**
 * Which callers' ids are on their way to the log, and what became of the last ones: so that of concurrent requests
 * with one id exactly one publishes, and its repetitions are answered without publishing.
 */
export function createReservations(options: ReservationOptions = {}): Reservations {
  const { elapsedMs = () => performance.now(), settledMax = 200_000, memoryMs = 600_000 } = options;
  /** As many as requests under way carry, which the publisher's memory bounds. */
  const held = new Map<string, Held>();
  const settled = createSettledKeys({ elapsedMs, keysMax: settledMax, memoryMs });

  function reserve(id: CallersId, contentHash: string): Reservation {
    const key = keyOf(id);
    const holder = held.get(key);
    if (holder) return { state: 'held', settled: holder.settled };
    const before = settled.recall(key);
    if (before) {
      const same = before.contentHash === contentHash;
      if (before.known) return { state: same ? 'accepted' : 'conflict' };
      if (!same) return { state: 'unavailable' };
    }
    return hold(id.tenantId, key, contentHash, before);
  }

  function hold(
    tenantId: string,
    key: string,
    contentHash: string,
    before: Settled | undefined,
  ): Reservation {
    const { promise, resolve } = withResolver();
    const own: Held = { settled: promise, wake: resolve };
    held.set(key, own);
    return {
      state: 'reserved',
      settle(settlement) {
        if (held.get(key) !== own) return;
        held.delete(key);
        const after = remembered(settlement, contentHash, before);
        if (after) settled.remember(tenantId, key, after);
        else settled.forget(key);
        own.wake();
      },
    };
  }

  /** A failure of a second try says nothing about the first one, whose outcome stays unknown. */
  function remembered(
    settlement: Settlement,
    contentHash: string,
    before: Settled | undefined,
  ): Settled | undefined {
    const sinceMs = elapsedMs();
    switch (settlement.as) {
      case 'accepted':
        return { contentHash, known: true, sinceMs };
      case 'stored':
        return { contentHash: settlement.contentHash, known: true, sinceMs };
      case 'unknown':
        return { contentHash, known: false, sinceMs };
      case 'failed':
        return before;
    }
  }

  return { reserve };
}

/** Ids hold no control characters, so that the parts cannot run into each other. */
function keyOf({ tenantId, kind, id }: CallersId): string {
  return `${tenantId}\u0000${kind}\u0000${id}`;
}

function withResolver(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((onResolved) => {
    resolve = onResolved;
  });
  return { promise, resolve };
}
