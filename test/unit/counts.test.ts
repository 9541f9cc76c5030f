import { expect, it } from 'vitest';
import { Counts } from '../../shared/counts.ts';

it('counts add and remove per name, and keep the total', () => {
  const counts = new Counts();
  counts.add('a');
  counts.add('a', 4);
  counts.add('b');
  counts.remove('a', 2);
  expect([counts.of('a'), counts.of('b'), counts.of('c'), counts.total]).toEqual([3, 1, 0, 4]);
  counts.remove('a', 3);
  counts.remove('b');
  expect([counts.of('a'), counts.of('b'), counts.total]).toEqual([0, 0, 0]);
});
