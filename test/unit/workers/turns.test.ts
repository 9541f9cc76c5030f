import { expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock.ts';
import { createTurns } from '../../../workers/consume/transaction-slots.ts';

/** Work that ends when it is told to. */
function held() {
  const work = { running: false, end: () => {} };
  const run = () =>
    new Promise<void>((resolve) => {
      work.running = true;
      work.end = () => {
        work.running = false;
        resolve();
      };
    });
  return { work, run };
}

it('turns let so many in, and somebody alone when all are out', async () => {
  const turns = createTurns(2, systemClock);
  const [first, second, alone, third] = [held(), held(), held(), held()];
  const done = [
    turns.shared(first.run),
    turns.shared(second.run),
    turns.alone(alone.run),
    turns.shared(third.run),
  ];
  const running = () => [first, second, alone, third].map(({ work }) => work.running);
  await Promise.resolve();
  expect(running()).toEqual([true, true, false, false]);
  first.work.end();
  await done[0];
  expect(running()).toEqual([false, true, false, false]);
  second.work.end();
  await done[1];
  await Promise.resolve();
  expect(running()).toEqual([false, false, true, false]);
  alone.work.end();
  await done[2];
  await Promise.resolve();
  expect(running()).toEqual([false, false, false, true]);
  third.work.end();
  await Promise.all(done);
});

it('a turn ends with an error, too', async () => {
  const turns = createTurns(1, systemClock);
  await expect(turns.alone(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await turns.shared(async () => 'next')).toBe('next');
});

it('partitions that always have a batch waiting get as many turns each: no backlog keeps another out', async () => {
  const turns = createTurns(4, systemClock);
  const batches = [0, 0, 0, 0, 0, 0];
  const most = () => Math.max(...batches);
  await Promise.all(
    batches.map(async (_, partition) => {
      while (most() < 50) {
        await turns.shared(async () => {
          batches[partition]!++;
          await new Promise((resolve) => setImmediate(resolve));
        });
      }
    }),
  );
  expect(most() - Math.min(...batches)).toBeLessThanOrEqual(2);
});
