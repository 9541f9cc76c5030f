import type { LimitState } from '../rates/limits.ts';

/** The byte rate of one caller. */
export interface BodyRate {
  /** Returns whether this many bytes may be taken now. */
  holds(bytes: number): boolean;
  /**
   * Takes bytes; takes none and returns false if the rate would be more than `debtMax` below zero.
   */
  take(bytes: number, debtMax: number): boolean;
  giveBack(bytes: number): void;
  /**
   * Returns the current state. `neededBytes`: how much a refused body needs before it can be read.
   */
  state(neededBytes?: number): LimitState;
}

/** The bytes that one body takes of its caller's byte rate. */
export interface BodyCharge {
  /** Takes a known size in advance; takes none and returns false if the rate has too little. */
  reserve(bytes: number): boolean;
  /**
   * Takes the kept bytes of a piece as sent, at least `costMin`. False: the body must be refused.
   */
  takeRead(keptBytes: number, costMin: number): boolean;
  /** Takes unpacked bytes. False: the body must be refused. */
  takeUnpacked(bytes: number): boolean;
  /** Gives back the bytes of the body as sent, except the minimum cost of its pieces. */
  giveBackRead(): void;
  /** Gives back the unused part of the reservation. */
  end(): void;
}

/** How far below zero bodies of unknown size may take a rate, in bodies of the largest size. */
const DEBT_BODIES_MAX = 8;

/**
 * Charges a body so that concurrent bodies of one caller do not cause each other's refusal
 * half-way. A known size is reserved before the body is read or unpacked. A body of unknown size is
 * charged as it arrives, even below zero; later bodies wait until the rate is positive again. A
 * body that costs more than the largest size, because of many small chunks, gets no such credit.
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
      // The earlier cost of this body must not cause its refusal: each retry would fail again.
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
