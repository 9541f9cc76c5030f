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

/** Maximum debt that bodies of unknown size may cause, in bodies of the largest size. */
const DEBT_BODIES_MAX = 8;

/**
 * Charges a body to its caller's rate. Concurrent bodies of one caller do not cause each other's
 * refusal after a part was read. A known size is reserved before the body is read or decompressed.
 * A body of unknown size is charged as it arrives, even below zero; later bodies wait until the
 * rate is positive again. A body that costs more than the largest size, because of many small
 * chunks, gets no such credit.
 */
export class BodyCharge {
  private readonly rate: BodyRate;
  private readonly bytesMax: number;
  private reserved = 0;
  private charged = 0;
  private returnable = 0;

  constructor(rate: BodyRate, bytesMax: number) {
    this.rate = rate;
    this.bytesMax = bytesMax;
  }

  /** Takes a known size in advance. If the rate has too little, takes none and returns false. */
  reserve(bytes: number): boolean {
    // The bytes charged so far must not cause the refusal of this body: each retry would fail
    // again.
    if (!this.rate.take(bytes, this.charged)) return false;
    this.reserved += bytes;
    return true;
  }

  /**
   * Takes the bytes of one chunk as sent, at least `costMin`. Returns false if the body must be
   * refused.
   */
  takeRead(keptBytes: number, costMin: number): boolean {
    if (!this.take(Math.max(keptBytes, costMin))) return false;
    this.returnable += Math.max(0, keptBytes - costMin);
    return true;
  }

  /** Takes bytes after decompression. Returns false if the body must be refused. */
  takeUnpacked(bytes: number): boolean {
    return this.take(bytes);
  }

  /** Gives back the bytes of the body as sent, except the minimum cost of its chunks. */
  giveBackRead(): void {
    this.rate.giveBack(this.returnable);
    this.returnable = 0;
  }

  /** Gives back the unused part of the reservation. */
  end(): void {
    if (this.reserved > 0) this.rate.giveBack(this.reserved);
    this.reserved = 0;
  }

  private take(bytes: number): boolean {
    const inAdvance = Math.min(bytes, this.reserved);
    const debtMax = this.charged + bytes <= this.bytesMax ? DEBT_BODIES_MAX * this.bytesMax : 0;
    if (inAdvance < bytes && !this.rate.take(bytes - inAdvance, debtMax)) return false;
    this.reserved -= inAdvance;
    this.charged += bytes;
    return true;
  }
}
