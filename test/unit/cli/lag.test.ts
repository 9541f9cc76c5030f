import { describe, expect, it } from 'vitest';
import { createHolders } from '../../../cli/lag/members.ts';
import type { PartitionLag } from '../../../cli/lag/partitions.ts';
import { sumByTopic } from '../../../cli/lag/topics.ts';

const partition = (
  topic: string,
  number: number,
  lag: number,
  oldestSeconds: number | null = null,
): PartitionLag => ({
  topic,
  partition: number,
  end: '10',
  stored: String(10 - lag),
  lag,
  oldestSeconds,
  problem: null,
});

describe('the lag of topics', () => {
  it('is the sum of their partitions, with the age of the oldest record', () => {
    const partitions = [
      partition('b', 0, 3, 5),
      partition('a', 0, 0),
      partition('b', 1, 4, 60),
      { ...partition('b', 2, 0), problem: 'the log ends before the stored position' },
    ];
    expect(sumByTopic(partitions)).toEqual([
      { topic: 'b', partitions: 3, behind: 2, stalled: 1, lag: 7, oldestSeconds: 60 },
      { topic: 'a', partitions: 1, behind: 0, stalled: 0, lag: 0, oldestSeconds: null },
    ]);
  });
});

it('the holder of a partition is the member of the group of its topic', () => {
  const holderOf = createHolders(
    new Map([
      [
        'a',
        [
          { memberId: 'one', host: '10.0.0.1', partitions: [0, 2] },
          { memberId: 'two', host: '10.0.0.2', partitions: [] },
        ],
      ],
      ['b', []],
    ]),
  );
  expect(holderOf({ topic: 'a', partition: 2 })).toBe('one at 10.0.0.1');
  expect(holderOf({ topic: 'a', partition: 1 })).toBeUndefined();
  expect(holderOf({ topic: 'b', partition: 0 })).toBeUndefined();
});
