import { describe, expect, test } from 'vitest';
import { changeAssignment } from '../../shared/log/embedded/assignment.ts';
import type { GroupPartition, GroupState } from '../../shared/log/embedded/sql/group.ts';

const now = new Date(1_000_000);
const later = new Date(1_000_001);
const none: ReadonlySet<number> = new Set();

describe('the share of a member', () => {
  test('is everything while it is alone, also what a dead member held', () => {
    const state = group(['a'], [null, 'a', 'dead']);
    const expired = state.partitions.map((partition) => ({ ...partition, lease_until: now }));
    expect(changeAssignment({ ...state, partitions: expired }, 'a', none, none, now)).toEqual({
      claim: [0, 1, 2],
      giveBack: [],
      waiting: false,
    });
  });

  test('leaves to others what they hold, and waits for it', () => {
    expect(changeAssignment(group(['a', 'b'], ['a', 'a', 'a', 'a']), 'b', none, none, now)).toEqual({
      claim: [],
      giveBack: [],
      waiting: true,
    });
  });

  test('gives back what is over the share, the first members by name keeping the odd ones', () => {
    const state = group(['a', 'b'], ['a', 'a', 'a', 'a', 'a']);
    expect(changeAssignment(state, 'a', new Set([0, 1, 2, 3, 4]), none, now).giveBack).toEqual([3, 4]);
    const reversed = group(['a', 'b'], ['b', 'b', 'b', 'b', 'b']);
    expect(changeAssignment(reversed, 'b', new Set([0, 1, 2, 3, 4]), none, now).giveBack).toEqual([2, 3, 4]);
  });

  test('does not take again what an earlier reader of its own still handles', () => {
    expect(changeAssignment(group(['a'], ['a', null]), 'a', none, new Set([0]), now)).toEqual({
      claim: [1],
      giveBack: [],
      waiting: true,
    });
  });

  test('is nothing for the members beyond the number of partitions', () => {
    const change = changeAssignment(group(['a', 'b', 'c'], ['a', null]), 'c', none, none, now);
    expect(change).toEqual({ claim: [], giveBack: [], waiting: false });
  });

  test('of all members together is every partition, whatever their number', () => {
    for (const members of [['a'], ['a', 'b'], ['a', 'b', 'c', 'd', 'e'], 'abcdefghijklmno'.split('')]) {
      const state = group(
        members,
        Array.from({ length: 12 }, () => null),
      );
      const shares = members.map((member) => changeAssignment(state, member, none, none, now).claim.length);
      expect(shares.reduce((sum, share) => sum + share, 0)).toBe(12);
      expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
    }
  });
});

function group(members: string[], holders: (string | null)[]): GroupState {
  const partitions = holders.map(
    (member, partition): GroupPartition => ({
      partition,
      member,
      epoch: 1n,
      lease_until: member === null ? null : later,
      next_offset: null,
    }),
  );
  return { members, partitions };
}
