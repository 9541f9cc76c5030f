import { describe, expect, it } from 'vitest';
import type { LogRecord } from '../../../shared/log/log.ts';
import { BATCH_BYTES_MAX, createBatchSize } from '../../../workers/consume/batch-size.ts';

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
    const all = records(1000);
    const next = () => size.take(all, 0).length;
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
    const all = records(100);
    let failures = 0;
    size.halve(100);
    for (let commits = 0; commits < 252; commits++) {
      size.noteCommit(50);
      if (size.take(all, 0).length <= 50) continue;
      failures += 1;
      size.halve(100);
    }
    // After 4, 8, 16, 32, 64, 64 and 64 commits.
    expect(failures).toBe(7);
    size.noteCommit(50);
    expect(size.take(all, 0)).toHaveLength(50);
  });

  it('never goes below one record', () => {
    const size = createBatchSize(4);
    for (let i = 0; i < 5; i++) size.halve(size.take(records(4), 0).length);
    expect(size.take(records(4), 0)).toHaveLength(1);
  });

  it('does not double after smaller batches', () => {
    const size = createBatchSize(100);
    size.halve(100);
    for (let commits = 0; commits < 20; commits++) size.noteCommit(3);
    expect(size.take(records(200), 0)).toHaveLength(50);
  });

  it('is limited in bytes, except for a single larger record', () => {
    const size = createBatchSize(1000);
    expect(size.take(records(10, BATCH_BYTES_MAX / 4), 0)).toHaveLength(4);
    expect(size.take(records(10, BATCH_BYTES_MAX / 4), 7)).toHaveLength(3);
    expect(size.take(records(2, BATCH_BYTES_MAX + 1), 0)).toHaveLength(1);
  });
});
