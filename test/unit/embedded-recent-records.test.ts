import { expect, it } from 'vitest';
import { type CommittedRecords, RecentRecords } from '../../shared/log/embedded/recent-records.ts';

const LIMITS = { recordsMax: 1000, bytesMax: 4 * 1024 * 1024 };
const TOPIC = 'topic';

/** Records of partition 0 whose values are their offsets. */
function committed(first: bigint, count: number, partition = 0): CommittedRecords {
  const records = Array.from({ length: count }, (_, i) => ({
    partition,
    key: 'tenant:entity',
    value: Buffer.from(`${first + BigInt(i)}`),
    headers: { name: 'text' },
  }));
  return { topic: TOPIC, partition, first, records, appendedAtMs: 1000 };
}

function offsets(records: readonly { readonly offset: bigint }[]): number[] {
  return records.map(({ offset }) => Number(offset));
}

it('recent records are read as the log returns them', () => {
  const recent = new RecentRecords();
  const reader = recent.open(TOPIC, 0);
  recent.add(committed(5n, 1));
  expect(reader.read(5n, LIMITS)).toEqual([
    {
      offset: 5n,
      key: Buffer.from('tenant:entity'),
      value: Buffer.from('5'),
      headers: [{ name: 'name', value: Buffer.from('text') }],
      timestampMs: 1000,
    },
  ]);
});

it('recent records are read from any offset that is held, and from no other offset', () => {
  const recent = new RecentRecords();
  const reader = recent.open(TOPIC, 0);
  recent.add(committed(5n, 2));
  recent.add(committed(7n, 2));
  expect(offsets(reader.read(4n, LIMITS))).toEqual([]);
  expect(offsets(reader.read(6n, LIMITS))).toEqual([6, 7, 8]);
  expect(offsets(reader.read(9n, LIMITS))).toEqual([]);
  recent.add(committed(9n, 1));
  expect(offsets(reader.read(9n, LIMITS))).toEqual([9]);
});

it('recent records that do not continue the records held are left to the database', () => {
  const recent = new RecentRecords();
  const reader = recent.open(TOPIC, 0);
  recent.add(committed(0n, 2));
  // Offset 2 was appended by another process.
  recent.add(committed(3n, 2));
  expect(offsets(reader.read(0n, LIMITS))).toEqual([0, 1]);
  expect(offsets(reader.read(2n, LIMITS))).toEqual([]);
  recent.add(committed(5n, 1));
  expect(offsets(reader.read(5n, LIMITS))).toEqual([5]);
});

it('a page of recent records is bounded, but has at least one record', () => {
  const recent = new RecentRecords();
  const reader = recent.open(TOPIC, 0);
  recent.add(committed(0n, 5));
  expect(offsets(reader.read(0n, { recordsMax: 2, bytesMax: 100 }))).toEqual([0, 1]);
  expect(offsets(reader.read(2n, { recordsMax: 10, bytesMax: 2 }))).toEqual([2, 3]);
  expect(offsets(reader.read(4n, { recordsMax: 10, bytesMax: 0 }))).toEqual([4]);
});

it('recent records of a stalled partition are bounded, and leave memory for other partitions', () => {
  const recent = new RecentRecords();
  const stalled = recent.open(TOPIC, 0);
  recent.add(committed(0n, 100_000));
  const held = stalled.read(0n, { ...LIMITS, recordsMax: 100_000 }).length;
  expect(held).toBe(1024);
  const other = recent.open(TOPIC, 1);
  recent.add(committed(0n, 10, 1));
  expect(other.read(0n, LIMITS)).toHaveLength(10);
});

it('recent records of all partitions are bounded together, and closing a reader frees its memory', () => {
  const recent = new RecentRecords();
  const readers = Array.from({ length: 20 }, (_, partition) => recent.open(TOPIC, partition));
  for (let partition = 0; partition < 20; partition++) recent.add(committed(0n, 2000, partition));
  const held = () => readers.map((reader) => reader.read(0n, { ...LIMITS, recordsMax: 2000 }).length);
  expect(held().reduce((sum, records) => sum + records)).toBe(8 * 1024);
  readers[0]!.close();
  recent.add(committed(0n, 2000, 19));
  expect(readers[19]!.read(0n, LIMITS).length).toBeGreaterThan(0);
});

it('each reader of a partition gets its recent records, and a closed one none', () => {
  const recent = new RecentRecords();
  const [first, second] = [recent.open(TOPIC, 0), recent.open(TOPIC, 0)];
  recent.add(committed(0n, 1));
  expect(offsets(first.read(0n, LIMITS))).toEqual([0]);
  expect(offsets(second.read(0n, LIMITS))).toEqual([0]);
  second.close();
  recent.add(committed(1n, 1));
  expect(offsets(first.read(1n, LIMITS))).toEqual([1]);
  expect(offsets(second.read(1n, LIMITS))).toEqual([]);
});
