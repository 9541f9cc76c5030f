import type { GroupPartition, GroupState } from './sql/group.ts';

/** What a member should change to have its fair share. */
export interface AssignmentChange {
  /** Free partitions to claim, no more than are missing. */
  readonly claim: readonly number[];
  /** Partitions to give back, because others have too few. */
  readonly giveBack: readonly number[];
  /** Whether the share is not full even if every claim succeeds: some partitions are still with members that have too many. */
  readonly waiting: boolean;
}

/**
 * Shares the partitions evenly among the members that are alive: each has n/m of them, and the first ones by name one
 * more where it does not come out even. A lone member has all.
 *
 * @param held partitions that the member reads now
 * @param unavailable partitions that it must not claim yet, because an earlier reader of its own has not ended
 */
export function changeAssignment(
  state: GroupState,
  member: string,
  held: ReadonlySet<number>,
  unavailable: ReadonlySet<number>,
  now: Date,
): AssignmentChange {
  const share = shareOf(state, member);
  const free = state.partitions
    .filter((partition) => isFree(partition, member, now))
    .map(({ partition }) => partition)
    .filter((partition) => !held.has(partition) && !unavailable.has(partition));
  const missing = Math.max(0, share - held.size);
  return {
    claim: free.slice(0, missing),
    giveBack: [...held].sort((a, b) => a - b).slice(share),
    waiting: free.length < missing,
  };
}

function shareOf({ partitions, members }: GroupState, member: string): number {
  const rank = members.indexOf(member);
  if (rank < 0) return 0;
  return Math.floor(partitions.length / members.length) + (rank < partitions.length % members.length ? 1 : 0);
}

/** Nobody holds it, its holder's lease ran out, or it is this member's own from before a restart. */
function isFree(partition: GroupPartition, member: string, now: Date): boolean {
  if (partition.member === null || partition.member === member) return true;
  return partition.lease_until === null || partition.lease_until <= now;
}
