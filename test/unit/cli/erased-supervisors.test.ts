import { expect, it } from 'vitest';
import { findErasedSupervisors, type SupervisorPatch } from '../../../cli/erase/supervisors.ts';

const ERASED = { ids: ['gone'], erasedAtMs: 10 };

/** Returns the indexes of the patches with an erased id, and of those with an erased name. */
function find(...sent: readonly [string | null | undefined, string | null | undefined, number?][]) {
  const patches: SupervisorPatch[] = sent.map(([supervisorId, supervisorName, acceptedAtMs = 1]) => ({
    supervisorId,
    supervisorName,
    acceptedAtMs,
  }));
  const { ids, names } = findErasedSupervisors(patches, ERASED);
  return [ids, names].map((found) => found.map((patch) => patches.indexOf(patch)));
}

it('finds names that were sent alone while an erased supervisor was in force', () => {
  expect(find(['gone', undefined], [undefined, 'a'], [undefined, 'b'], ['next', undefined])).toEqual([
    [0],
    [1, 2],
  ]);
  expect(find([undefined, 'a'], [undefined, 'b'], ['gone', undefined])).toEqual([[2], [1]]);
  expect(find([null, 'a'], ['gone', undefined])).toEqual([[1], [0]]);
});

it('leaves names of other supervisors', () => {
  expect(find(['first', 'a'], ['gone', undefined], ['next', 'b'])).toEqual([[1], []]);
  expect(find(['gone', 'a'], ['next', undefined], [undefined, 'b'])).toEqual([[0], []]);
});

it('leaves what was accepted after the erasure', () => {
  expect(find(['gone', 'a', 11], [undefined, 'b', 11])).toEqual([[], []]);
  expect(find(['gone', undefined], [undefined, 'b', 11])).toEqual([[0], []]);
  expect(find([undefined, 'a'], ['gone', undefined, 11])).toEqual([[], []]);
});
