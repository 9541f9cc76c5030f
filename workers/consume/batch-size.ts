import type { LogRecord } from '../../shared/log/log.ts';

/**
 * Bytes of values, keys and headers that one transaction stores at most. A larger record is stored
 * alone.
 */
export const BATCH_BYTES_MAX = 2 * 1024 * 1024;
/**
 * Commits at the current size before the size is doubled. The number is doubled after each failure
 * of the doubled size.
 */
const COMMITS_BEFORE_GROWTH = 4;
const COMMITS_BEFORE_GROWTH_MAX = 64;

/** Limits of the records that are taken together. */
export interface RecordLimits {
  readonly recordsMax: number;
  readonly bytesMax: number;
}

/**
 * How many records are stored in one transaction. Batches shrink after failures that
 * their size may have caused.
 */
export interface BatchSize {
  /** The current maximum number of records. */
  readonly recordsMax: number;
  /** Halves the size, after a batch of this many records was too large. */
  halve(records: number): void;
  /** Records that a batch of this many records was stored. */
  noteCommit(records: number): void;
}

export function createBatchSize(sizeMax: number): BatchSize {
  let size = sizeMax;
  let commits = 0;
  let commitsNeeded = COMMITS_BEFORE_GROWTH;
  /** Whether the size was doubled, and no batch of the doubled size was stored yet. */
  let onTrial = false;

  return {
    get recordsMax() {
      return size;
    },
    halve(records) {
      size = Math.max(1, Math.min(size, records) >> 1);
      commits = 0;
      commitsNeeded = onTrial
        ? Math.min(commitsNeeded * 2, COMMITS_BEFORE_GROWTH_MAX)
        : COMMITS_BEFORE_GROWTH;
      onTrial = false;
    },
    noteCommit(records) {
      if (records < size) return;
      if (onTrial) commitsNeeded = COMMITS_BEFORE_GROWTH;
      onTrial = false;
      commits += 1;
      if (size === sizeMax || commits < commitsNeeded) return;
      size = Math.min(size * 2, sizeMax);
      commits = 0;
      onTrial = true;
    },
  };
}

/** Returns the next records from index `at` on, within the limits: at least one. */
export function takeRecords(
  records: readonly LogRecord[],
  at: number,
  { recordsMax, bytesMax }: RecordLimits,
): LogRecord[] {
  let end = at + 1;
  let bytes = bytesOf(records[at]!);
  while (end < records.length && end - at < recordsMax) {
    bytes += bytesOf(records[end]!);
    if (bytes > bytesMax) break;
    end += 1;
  }
  return records.slice(at, end);
}

/** Returns the bytes of a record's value, key and headers. */
export function bytesOf({ key, value, headers }: LogRecord): number {
  const ofHeaders = headers.reduce(
    (sum, header) => sum + header.name.length + (header.value?.length ?? 0),
    0,
  );
  return value.length + (key?.length ?? 0) + ofHeaders;
}
