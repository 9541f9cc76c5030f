import { expect, it } from 'vitest';
import { PlainInserts } from '../../../workers/consume/plain-inserts.ts';

it('a plain INSERT is not tried for few ids', () => {
  const inserts = new PlainInserts();
  expect([1, 199, 200, 2000].map((ids) => inserts.shouldTry(ids))).toEqual([false, false, true, true]);
});

it('a plain INSERT is not tried for the 32 batches after one with an id that exists', () => {
  const inserts = new PlainInserts();
  inserts.noteRepeat();
  const tried = Array.from({ length: 34 }, () => inserts.shouldTry(1000));
  expect(tried.indexOf(true)).toBe(32);
  inserts.noteRepeat();
  expect(inserts.shouldTry(1000)).toBe(false);
});
