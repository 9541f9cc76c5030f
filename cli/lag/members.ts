import type { GroupMember } from '../../shared/log/log.ts';
import type { PartitionLag } from './partitions.ts';

/** Returns the worker that holds a partition, as a text; undefined if none does. */
export type HolderOf = (place: Pick<PartitionLag, 'topic' | 'partition'>) => string | undefined;

/** Returns the holders of partitions among the members of the workers' groups, by topic. */
export function createHolders(members: ReadonlyMap<string, readonly GroupMember[]>): HolderOf {
  const holders = new Map(
    [...members].flatMap(([topic, found]) =>
      found.flatMap(({ memberId, host, partitions }) =>
        partitions.map((partition) => [`${topic}/${partition}`, `${memberId} at ${host}`] as const),
      ),
    ),
  );
  return ({ topic, partition }) => holders.get(`${topic}/${partition}`);
}
