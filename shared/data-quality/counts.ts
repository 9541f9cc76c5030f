import { compareText } from '../compare-text.ts';
import type { Kind } from '../contracts/kinds.ts';

/**
 * - `gap`: a stored record lacks members that its other members call for
 * - `unknown-member`: a record had members that its kind does not have
 * - `rejected`: the gateway refused a record, or a body that was none
 * - `duplicate`: a record was dropped, because its id and content are stored
 * - `conflict`: the gateway refused a record whose id was accepted with other content; workers count
 *   those that they find as dead letters
 * - `dead-letter`: an accepted record could not be stored
 */
export type Measure = 'gap' | 'unknown-member' | 'rejected' | 'duplicate' | 'conflict' | 'dead-letter';

/** What is counted of a tenant on a day. */
export interface QualityItem {
  readonly measure: Measure;
  readonly kind: Kind;
  /** The code of `rejected`, the reason of `dead-letter`, the finder of `duplicate` and `conflict`. */
  readonly code?: string;
  /** A member. Default: the number of records is counted, not that of a member. */
  readonly name?: string;
}

/** The name under which names above the maximum number are counted. */
export const OTHER_NAMES = '(others)';

/** Maximum number of names of members per tenant, day and measure. */
export const NAMES_MAX = 100;

export interface QualityCount extends Required<QualityItem> {
  readonly tenantId: string;
  /** The UTC day, such as `2026-01-31`. */
  readonly day: string;
  readonly records: number;
}

const DAY_MS = 86_400_000;

/** Counts that are collected before they are written. */
export class QualityCounts {
  private readonly counts = new Map<string, { -readonly [Name in keyof QualityCount]: QualityCount[Name] }>();

  /** The last day, since formatting one takes longer than the rest of `add`. */
  private dayNumber = Number.NaN;
  private dayText = '';

  /** Adds records that the gateway accepted or refused at a time. */
  add(tenantId: string, atMs: number, item: QualityItem, records = 1): void {
    const day = this.dayOf(atMs);
    const { measure, kind, code = '', name = '' } = item;
    const key = [tenantId, day, measure, kind, code, name].join('\n');
    const count = this.counts.get(key);
    if (count) count.records += records;
    else this.counts.set(key, { tenantId, day, measure, kind, code, name, records });
  }

  private dayOf(atMs: number): string {
    const number = Math.floor(atMs / DAY_MS);
    if (number !== this.dayNumber) {
      this.dayNumber = number;
      this.dayText = new Date(number * DAY_MS).toISOString().slice(0, 10);
    }
    return this.dayText;
  }

  isEmpty(): boolean {
    return this.counts.size === 0;
  }

  /** Returns the counts, sorted by key, and removes them. */
  take(): QualityCount[] {
    const sorted = [...this.counts].sort(([a], [b]) => compareText(a, b)).map(([, count]) => count);
    this.counts.clear();
    return sorted;
  }
}
