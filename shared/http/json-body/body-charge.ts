import type { LimitState } from '../rates/limits.ts';

/** The limit on a caller's bytes as one request sees it. */
export interface BodyRate {
  /** Whether so many bytes may be taken now. */
  holds(bytes: number): boolean;
  /** Takes so many bytes, or none and false where the limit would then be more than `debtMax` below zero. */
  take(bytes: number, debtMax: number): boolean;
  giveBack(bytes: number): void;
  /** The limit now; `neededBytes`: what a refused body needs before it can be read. */
  state(neededBytes?: number): LimitState;
}

/** What one body takes of its caller's byte rate. */
export interface BodyCharge {
  /** Takes a known size in advance, or nothing and false. What is not used of it is given back at the end. */
  reserve(bytes: number): boolean;
  /** Takes what is kept of a piece as sent, and at least `costMin`. False: the body must be refused. */
  takeRead(keptBytes: number, costMin: number): boolean;
  /** Takes bytes that were unpacked. False: the body must be refused. */
  takeUnpacked(bytes: number): boolean;
  /** Gives back what was kept of the body as sent, except what its pieces cost at least. */
  giveBackRead(): void;
  /** Gives back what is still reserved. */
  end(): void;
}

/** How far below zero bodies of unknown size may take a rate together, in bodies of the largest size. */
const DEBT_BODIES_MAX = 8;

/**
 * Charges a body so that bodies of one caller do not refuse each other half-way. A known size is reserved before the body
 * is read or unpacked. A body of unknown size is charged as it comes, also below zero: bodies after it wait until the
 * rate has made up for it. A body that costs more than the largest size, by many small chunks, has no such credit.
 */
export function chargeBody(rate: BodyRate, bytesMax: number): BodyCharge {
  let reserved = 0;
  let charged = 0;
  let returnable = 0;

  function take(bytes: number): boolean {
    const inAdvance = Math.min(bytes, reserved);
    const debtMax = charged + bytes <= bytesMax ? DEBT_BODIES_MAX * bytesMax : 0;
    if (inAdvance < bytes && !rate.take(bytes - inAdvance, debtMax)) return false;
    reserved -= inAdvance;
    charged += bytes;
    return true;
  }

  return {
    reserve(bytes) {
      // What the body has cost so far must not be why it is refused: it would be refused each time.
      if (!rate.take(bytes, charged)) return false;
      reserved += bytes;
      return true;
    },
    takeRead(keptBytes, costMin) {
      if (!take(Math.max(keptBytes, costMin))) return false;
      returnable += Math.max(0, keptBytes - costMin);
      return true;
    },
    takeUnpacked: take,
    giveBackRead() {
      rate.giveBack(returnable);
      returnable = 0;
    },
    end() {
      rate.giveBack(reserved);
      reserved = 0;
    },
  };
}
