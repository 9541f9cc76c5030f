import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { PositionWatch } from '../../../workers/consume/position-watch.ts';

let nowMs: number;
let rows: unknown[];
let answer: () => Promise<{ rows: unknown[] }>;
let stored: Map<number, { generation: number; nextOffset: bigint }>;
let restarted: number[];
let watch: PositionWatch;

const row = (partition: number | null, generation: number | null, nextOffset: bigint | null) => ({
  topic: 't',
  topicGeneration: 1,
  partition,
  generation,
  nextOffset,
});

beforeEach(() => {
  nowMs = 1_000_000;
  rows = [row(0, 1, 5n), row(1, 1, 7n)];
  answer = async () => ({ rows });
  stored = new Map([
    [0, { generation: 1, nextOffset: 5n }],
    [1, { generation: 1, nextOffset: 7n }],
    [2, { generation: 1, nextOffset: 0n }],
  ]);
  restarted = [];
  watch = new PositionWatch({
    pool: { waitingCount: 0, query: () => answer() } as unknown as Pool,
    clock: { nowMs: () => nowMs },
    consumers: [
      {
        topic: 't',
        storedPositions: () => new Map(stored),
        restart: (partition) => void restarted.push(partition),
      },
    ],
  });
});
afterEach(() => watch.close());

it('the position watch restarts no partition whose stored position is unchanged, also before its first record', async () => {
  await watch.check();
  rows = [row(null, null, null)];
  stored = new Map([[2, { generation: 1, nextOffset: 0n }]]);
  await watch.check();
  expect(restarted).toEqual([]);
});

it.each([
  ['was moved back', row(1, 1, 6n)],
  ['was moved forward', row(1, 1, 8n)],
  ['has another generation', row(1, 2, 7n)],
])('restarts a partition whose position %s', async (_, changed) => {
  rows = [row(0, 1, 5n), changed];
  await watch.check();
  expect(restarted).toEqual([1]);
});

it('the position watch restarts all partitions of a topic that has another generation, or is not registered', async () => {
  rows = rows.map((found) => ({ ...(found as object), topicGeneration: 2 }));
  await watch.check();
  expect(restarted).toEqual([0, 1, 2]);
  rows = [];
  await watch.check();
  expect(restarted).toEqual([0, 1, 2, 0, 1, 2]);
});

it('the position watch restarts no partition that stored a batch, or became busy, during the query', async () => {
  rows = [row(0, 1, 6n), row(1, 1, 8n)];
  answer = async () => {
    stored.set(0, { generation: 1, nextOffset: 6n });
    stored.delete(1);
    return { rows };
  };
  await watch.check();
  expect(restarted).toEqual([]);
});

it('the position watch reports how long the database has not answered, and why it failed', async () => {
  let end: (error: Error) => void = () => {};
  answer = () =>
    new Promise((_, reject) => {
      end = reject;
    });
  const looking = watch.check();
  expect(watch.problem()).toBeUndefined();
  nowMs += 3000;
  expect(watch.problem()).toBe('the database has not answered for 3 s');
  end(new Error('Query read timeout'));
  await looking;
  expect(watch.problem()).toMatch(/^the database does not answer \(Query read timeout\)/);
  answer = async () => ({ rows });
  await watch.check();
  expect(watch.problem()).toBeUndefined();
});
