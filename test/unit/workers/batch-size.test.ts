import { describe, expect, it } from 'vitest';
import type { LogRecord } from '../../../shared/log/log.ts';
import { BATCH_BYTES_MAX, createBatchSize, takeRecords } from '../../../workers/consume/batch-size.ts';

const records = (count: number, bytes = 1): LogRecord[] =>
  Array.from({ length: count }, (_, i) => ({
    offset: BigInt(i),
    key: null,
    value: Buffer.alloc(bytes),
    headers: [],
    timestampMs: 0,
  }));

describe('the size of a batch', () => {
  it('halves after a failure, and doubles after four commits of that size', () => {
    const size = createBatchSize(100);
    const next = () => size.recordsMax;
    expect(next()).toBe(100);
    size.halve(100);
    expect(next()).toBe(50);
    size.halve(50);
    expect(next()).toBe(25);
    for (const expected of [25, 25, 25, 50]) {
      size.noteCommit(next());
      expect(next()).toBe(expected);
    }
    for (let commits = 0; commits < 20; commits++) size.noteCommit(next());
    expect(next()).toBe(100);
  });

  it('doubles more and more rarely while the larger size fails', () => {
    const size = createBatchSize(100);
    let failures = 0;
    size.halve(100);
    for (let commits = 0; commits < 252; commits++) {
      size.noteCommit(50);
      if (size.recordsMax <= 50) continue;
      failures += 1;
      size.halve(100);
    }
    // After 4, 8, 16, 32, 64, 64 and 64 commits.
    expect(failures).toBe(7);
    size.noteCommit(50);
    expect(size.recordsMax).toBe(50);
  });

  it('never goes below one record', () => {
    const size = createBatchSize(4);
    for (let i = 0; i < 5; i++) size.halve(size.recordsMax);
    expect(size.recordsMax).toBe(1);
  });

  it('does not double after smaller batches', () => {
    const size = createBatchSize(100);
    size.halve(100);
    for (let commits = 0; commits < 20; commits++) size.noteCommit(3);
    expect(size.recordsMax).toBe(50);
  });
});

it('records are taken up to a number and up to a number of bytes, and at least one', () => {
  const limits = { recordsMax: 5, bytesMax: BATCH_BYTES_MAX };
  expect(takeRecords(records(10), 2, limits).map(({ offset }) => offset)).toEqual([2n, 3n, 4n, 5n, 6n]);
  expect(takeRecords(records(10, BATCH_BYTES_MAX / 4), 0, limits)).toHaveLength(4);
  expect(takeRecords(records(10, BATCH_BYTES_MAX / 4), 7, limits)).toHaveLength(3);
  expect(takeRecords(records(2, BATCH_BYTES_MAX + 1), 0, limits)).toHaveLength(1);
});
