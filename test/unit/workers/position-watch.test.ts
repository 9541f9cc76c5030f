import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { type PositionWatch, startPositionWatch } from '../../../workers/consume/position-watch.ts';

let nowMs: number;
let rows: unknown[];
let answer: () => Promise<{ rows: unknown[] }>;
let standing: Map<number, { generation: number; nextOffset: bigint }>;
let asked: number[];
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
  standing = new Map([
    [0, { generation: 1, nextOffset: 5n }],
    [1, { generation: 1, nextOffset: 7n }],
    [2, { generation: 1, nextOffset: 0n }],
  ]);
  asked = [];
  watch = startPositionWatch({
    pool: { waitingCount: 0, query: () => answer() } as unknown as Pool,
    clock: { nowMs: () => nowMs },
    consumers: [
      {
        topic: 't',
        standing: () => new Map(standing),
        askStart: (partition) => void asked.push(partition),
      },
    ],
  });
});
afterEach(() => watch.close());

it('leaves alone what stands where it is believed to, also where nothing was begun', async () => {
  await watch.look();
  rows = [row(null, null, null)];
  standing = new Map([[2, { generation: 1, nextOffset: 0n }]]);
  await watch.look();
  expect(asked).toEqual([]);
});

it.each([
  ['went back', row(1, 1, 6n)],
  ['went on', row(1, 1, 8n)],
  ['has another generation', row(1, 2, 7n)],
])('asks for the start where the position %s', async (_, changed) => {
  rows = [row(0, 1, 5n), changed];
  await watch.look();
  expect(asked).toEqual([1]);
});

it('asks for the start of all where the topic has another generation, or is not registered', async () => {
  rows = rows.map((found) => ({ ...(found as object), topicGeneration: 2 }));
  await watch.look();
  expect(asked).toEqual([0, 1, 2]);
  rows = [];
  await watch.look();
  expect(asked).toEqual([0, 1, 2, 0, 1, 2]);
});

it('does not ask where a batch was stored, or is at work, meanwhile', async () => {
  rows = [row(0, 1, 6n), row(1, 1, 8n)];
  answer = async () => {
    standing.set(0, { generation: 1, nextOffset: 6n });
    standing.delete(1);
    return { rows };
  };
  await watch.look();
  expect(asked).toEqual([]);
});

it('says how long the database has not answered, and what it refuses', async () => {
  let end: (error: Error) => void = () => {};
  answer = () =>
    new Promise((_, reject) => {
      end = reject;
    });
  const looking = watch.look();
  expect(watch.problem()).toBeUndefined();
  nowMs += 3000;
  expect(watch.problem()).toBe('the database has not answered for 3 s');
  end(new Error('Query read timeout'));
  await looking;
  expect(watch.problem()).toMatch(/^the database does not answer \(Query read timeout\)/);
  answer = async () => ({ rows });
  await watch.look();
  expect(watch.problem()).toBeUndefined();
});
