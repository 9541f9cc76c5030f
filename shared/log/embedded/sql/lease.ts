import type { Queryable } from '../../../postgres/pool.ts';
import type { GroupMember } from './group.ts';

/** A lease that a member holds. Whatever it does under another epoch than the partition's changes nothing. */
export interface Lease {
  readonly partition: number;
  readonly epoch: bigint;
}

/**
 * Counts the member as alive and renews its leases, all until `until`. Resolves with the partitions that it still
 * holds: the others went to another member.
 */
export async function renewLeases(
  db: Queryable,
  { group, topic, member }: GroupMember,
  leases: readonly Lease[],
  until: Date,
): Promise<number[]> {
  const result = await db.query<{ partition: number }>(
    `WITH alive AS (
       INSERT INTO log_group_members (group_name, topic, member, alive_until) VALUES ($1, $2, $3, $4)
       ON CONFLICT (group_name, topic, member) DO UPDATE SET alive_until = excluded.alive_until
     )
     UPDATE log_group_partitions g SET lease_until = $4
     FROM unnest($5::int[], $6::bigint[]) AS held (partition, epoch)
     WHERE g.group_name = $1 AND g.topic = $2 AND g.member = $3 AND g.partition = held.partition AND g.epoch = held.epoch
     RETURNING g.partition`,
    [group, topic, member, until, leases.map((lease) => lease.partition), leases.map((lease) => lease.epoch)],
  );
  return result.rows.map((row) => row.partition);
}

/** A lease that was just taken, and how far the group had come. */
export interface ClaimedLease extends Lease {
  readonly next_offset: bigint | null;
}

/**
 * Takes those of the partitions that nobody holds now, or that this member held before it started anew. Each gets a
 * new epoch, which shuts its former owner out.
 */
export async function claimLeases(
  db: Queryable,
  { group, topic, member }: GroupMember,
  partitions: readonly number[],
  now: Date,
  until: Date,
): Promise<ClaimedLease[]> {
  const sorted = [...partitions].sort((a, b) => a - b);
  await db.query(
    `INSERT INTO log_group_partitions (group_name, topic, partition, epoch)
     SELECT $1, $2, partition, 0 FROM unnest($3::int[]) AS partition
     ON CONFLICT (group_name, topic, partition) DO NOTHING`,
    [group, topic, sorted],
  );
  const result = await db.query<ClaimedLease>(
    `WITH free AS (
       SELECT partition FROM log_group_partitions
       WHERE group_name = $1 AND topic = $2 AND partition = ANY ($3::int[])
         AND (member IS NULL OR member = $4 OR lease_until <= $5)
       ORDER BY partition
       FOR UPDATE SKIP LOCKED
     )
     UPDATE log_group_partitions g SET member = $4, lease_until = $6, epoch = g.epoch + 1
     FROM free
     WHERE g.group_name = $1 AND g.topic = $2 AND g.partition = free.partition
     RETURNING g.partition, g.epoch, g.next_offset`,
    [group, topic, sorted, member, now, until],
  );
  return result.rows;
}

/** Moves the group's offset under a lease; resolves with false when the lease is no longer the member's. */
export async function commitOffset(
  db: Queryable,
  { group, topic, member }: GroupMember,
  lease: Lease,
  nextOffset: bigint,
): Promise<boolean> {
  const result = await db.query(
    `UPDATE log_group_partitions SET next_offset = $6
     WHERE group_name = $1 AND topic = $2 AND partition = $3 AND member = $4 AND epoch = $5`,
    [group, topic, lease.partition, member, lease.epoch, nextOffset],
  );
  return result.rowCount === 1;
}

/** Gives a partition back, so that another member need not wait for the lease to run out. */
export async function releaseLease(
  db: Queryable,
  { group, topic, member }: GroupMember,
  lease: Lease,
): Promise<void> {
  await db.query(
    `UPDATE log_group_partitions SET member = NULL, lease_until = NULL
     WHERE group_name = $1 AND topic = $2 AND partition = $3 AND member = $4 AND epoch = $5`,
    [group, topic, lease.partition, member, lease.epoch],
  );
}

/** Takes the member out of its group. */
export async function leaveGroup(db: Queryable, { group, topic, member }: GroupMember): Promise<void> {
  await db.query('DELETE FROM log_group_members WHERE group_name = $1 AND topic = $2 AND member = $3', [
    group,
    topic,
    member,
  ]);
}
