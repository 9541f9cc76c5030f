import { expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock.ts';
import { createTransactionSlots } from '../../../workers/consume/transaction-slots.ts';

/** Returns work that runs until its `end` function is called. */
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

it('transaction slots run work up to their number, and alone work once all are free', async () => {
  const slots = createTransactionSlots(2, systemClock);
  const [first, second, alone, third] = [held(), held(), held(), held()];
  const done = [
    slots.shared(first.run),
    slots.shared(second.run),
    slots.alone(alone.run),
    slots.shared(third.run),
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

it('a transaction slot is released after an error', async () => {
  const slots = createTransactionSlots(1, systemClock);
  await expect(slots.alone(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await slots.shared(async () => 'next')).toBe('next');
});

it('transaction slots are shared equally by partitions that always have a batch waiting', async () => {
  const slots = createTransactionSlots(4, systemClock);
  const batches = [0, 0, 0, 0, 0, 0];
  const most = () => Math.max(...batches);
  await Promise.all(
    batches.map(async (_, partition) => {
      while (most() < 50) {
        await slots.shared(async () => {
          batches[partition]!++;
          await new Promise((resolve) => setImmediate(resolve));
        });
      }
    }),
  );
  expect(most() - Math.min(...batches)).toBeLessThanOrEqual(2);
});
