import { epochMs, toMsOrNull } from '../../../postgres/epoch-ms.ts';
import type { Queryable } from '../../../postgres/pool.ts';

/** One member of a consumer group on one topic. */
export interface GroupMember {
  readonly group: string;
  readonly topic: string;
  readonly member: string;
}

/** A partition as a group sees it; epoch, member and lease are null where nobody ever read it. */
export interface GroupPartition {
  readonly partition: number;
  readonly epoch: bigint | null;
  readonly member: string | null;
  readonly lease_until: Date | null;
  readonly next_offset: bigint | null;
}

/** The topic's partitions, and the names of the members that count now, sorted. */
export interface GroupState {
  readonly partitions: readonly GroupPartition[];
  readonly members: readonly string[];
}

/** Reads who is in a group and who reads what. */
export async function readGroup(
  db: Queryable,
  { group, topic }: GroupMember,
  now: Date,
): Promise<GroupState> {
  const result = await db.query<
    Omit<GroupPartition, 'lease_until'> & { lease_until_ms: bigint | null; members: string[] | null }
  >(
    `SELECT p.partition, g.epoch, g.member, ${epochMs('g.lease_until')} AS lease_until_ms, g.next_offset,
            (SELECT array_agg(member) FROM log_group_members
             WHERE group_name = $1 AND topic = $2 AND alive_until > $3) AS members
     FROM log_partitions p
       LEFT JOIN log_group_partitions g ON g.group_name = $1 AND g.topic = p.topic AND g.partition = p.partition
     WHERE p.topic = $2
     ORDER BY p.partition`,
    [group, topic, now],
  );
  const partitions = result.rows.map(({ members, lease_until_ms, ...partition }) => {
    const leaseUntilMs = toMsOrNull(lease_until_ms);
    return { ...partition, lease_until: leaseUntilMs === null ? null : new Date(leaseUntilMs) };
  });
  return { partitions, members: [...(result.rows[0]?.members ?? [])].sort() };
}

/** The group's offset of one partition; undefined where it has none. */
export async function readGroupOffset(
  db: Queryable,
  group: string,
  topic: string,
  partition: number,
): Promise<bigint | undefined> {
  const result = await db.query<{ next_offset: bigint | null }>(
    'SELECT next_offset FROM log_group_partitions WHERE group_name = $1 AND topic = $2 AND partition = $3',
    [group, topic, partition],
  );
  return result.rows[0]?.next_offset ?? undefined;
}
