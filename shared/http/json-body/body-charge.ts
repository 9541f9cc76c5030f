import type { LimitState } from '../rates/limits.ts';

/** The byte rate of one caller. */
export interface BodyRate {
  /** Returns whether this many bytes may be taken now. */
  holds(bytes: number): boolean;
  /**
   * Takes bytes. If that would leave the rate more than `debtMax` below zero, takes none and
   * returns false.
   */
  take(bytes: number, debtMax: number): boolean;
  giveBack(bytes: number): void;
  /**
   * Returns the current state. `neededBytes`: the bytes that must be available before a refused
   * body can be read.
   */
  state(neededBytes?: number): LimitState;
}

/** The bytes that one body takes from its caller's byte rate. */
export interface BodyCharge {
  /** Takes a known size in advance. If the rate has too little, takes none and returns false. */
  reserve(bytes: number): boolean;
  /**
   * Takes the bytes of one chunk as sent, at least `costMin`. Returns false if the body must be
   * refused.
   */
  takeRead(keptBytes: number, costMin: number): boolean;
  /** Takes bytes after decompression. Returns false if the body must be refused. */
  takeUnpacked(bytes: number): boolean;
  /** Gives back the bytes of the body as sent, except the minimum cost of its chunks. */
  giveBackRead(): void;
  /** Gives back the unused part of the reservation. */
  end(): void;
}

/** Maximum debt that bodies of unknown size may cause, in bodies of the largest size. */
const DEBT_BODIES_MAX = 8;

/**
 * Charges a body to its caller's rate. Concurrent bodies of one caller do not cause each other's
 * refusal after a part was read. A known size is reserved before the body is read or decompressed.
 * A body of unknown size is charged as it arrives, even below zero; later bodies wait until the
 * rate is positive again. A body that costs more than the largest size, because of many small
 * chunks, gets no such credit.
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
      // The bytes charged so far must not cause the refusal of this body: each retry would fail
      // again.
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
