import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../clock.ts';
import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import type { ConsumerOptions, ConsumerStatus, LogConsumer } from '../log.ts';
import { changeAssignment } from './assignment.ts';
import { type PartitionReader, readPartition } from './partition-reader.ts';
import { type GroupMember, readGroup } from './sql/group.ts';
import {
  type ClaimedLease,
  claimLeases,
  commitOffset,
  type Lease,
  leaveGroup,
  releaseLease,
  renewLeases,
} from './sql/lease.ts';
import type { BoundsWatch } from './watch.ts';

/** What a consumer needs of its log. */
export interface ConsumerContext {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watch: BoundsWatch;
  /** Its name in the group. */
  readonly member: string;
  readonly leaseMs: number;
}

interface Assignment {
  readonly lease: Lease;
  readonly reader: PartitionReader;
  /** What the group had handled when the partition was taken. */
  readonly groupOffset: bigint | null;
  leaseUntilMs: number;
  leaving: boolean;
}

/** Renewals a lease: three may fail before it runs out. */
const RENEWALS_PER_LEASE = 4;
/** Milliseconds between looks while partitions of a member's share are still elsewhere, or the database fails. */
const IMPATIENT_MS = 250;

/** Starts one member of a consumer group: it holds leases on its share of the partitions and reads each on its own. */
export function startConsumer(options: ConsumerOptions, context: ConsumerContext): LogConsumer {
  const { pool, clock, logger, watch, leaseMs } = context;
  const { topic, group } = options;
  const self: GroupMember = { group, topic, member: context.member };
  const held = new Map<number, Assignment>();
  /** Readers of partitions that were taken away, until their handlers have ended. */
  const ending = new Map<number, Promise<void>>();
  const stopping = new AbortController();
  let joined = false;
  let closing = false;
  let closed: Promise<void> | undefined;
  let problem: string | undefined;
  const unfollow = watch.follow(topic);
  const heartbeat = keepMembership();

  /** Renews what is held and adjusts it, until the consumer has given back everything. */
  async function keepMembership(): Promise<void> {
    const intervalMs = leaseMs / RENEWALS_PER_LEASE;
    while (!stopping.signal.aborted) {
      let waiting = false;
      try {
        waiting = await updateMembership();
        joined = true;
        problem = undefined;
      } catch (error) {
        if (problem === undefined)
          logger.warn({ group, topic, reason: errorMessage(error) }, 'no contact with the group');
        problem = `the database does not answer: ${errorMessage(error)}`;
        dropExpired();
        waiting = true;
      }
      const pauseMs = waiting ? Math.min(intervalMs, IMPATIENT_MS) : intervalMs;
      await delay(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  }

  /** Resolves with whether the member still waits for a part of its share. */
  async function updateMembership(): Promise<boolean> {
    await renew();
    if (closing) return false;
    const now = new Date(clock.nowMs());
    const state = await readGroup(pool, self, now);
    const staying = new Set(
      [...held].filter(([, assignment]) => !assignment.leaving).map(([partition]) => partition),
    );
    const unavailable = new Set([...held.keys(), ...ending.keys()]);
    const change = changeAssignment(state, self.member, staying, unavailable, now);
    for (const partition of change.giveBack) void giveBack(partition);
    if (change.claim.length > 0) await claim(change.claim);
    return change.waiting;
  }

  async function renew(): Promise<void> {
    const leaseUntilMs = clock.nowMs() + leaseMs;
    const asked = [...held.values()];
    const renewed = new Set(
      await renewLeases(
        pool,
        self,
        asked.map(({ lease }) => lease),
        new Date(leaseUntilMs),
      ),
    );
    for (const assignment of asked) {
      if (renewed.has(assignment.lease.partition)) assignment.leaseUntilMs = leaseUntilMs;
      else drop(assignment);
    }
  }

  async function claim(partitions: readonly number[]): Promise<void> {
    const nowMs = clock.nowMs();
    const leaseUntilMs = nowMs + leaseMs;
    const leases = await claimLeases(pool, self, partitions, new Date(nowMs), new Date(leaseUntilMs));
    for (const lease of leases) {
      if (closing) await releaseLease(pool, self, lease);
      else assign(lease, leaseUntilMs);
    }
  }

  function assign(lease: ClaimedLease, leaseUntilMs: number): void {
    const { partition } = lease;
    const reader = readPartition({
      consumer: options,
      partition,
      pool,
      watch,
      logger,
      leaseHolds: () => held.get(partition) === assignment && clock.nowMs() < assignment.leaseUntilMs,
      commit: (nextOffset) => commitOffset(pool, self, lease, nextOffset),
    });
    const assignment: Assignment = {
      lease,
      reader,
      groupOffset: lease.next_offset,
      leaseUntilMs,
      leaving: false,
    };
    held.set(partition, assignment);
    // A reader ends by itself when a commit tells that the partition is another member's.
    void reader.ended.then(() => {
      if (!assignment.leaving) drop(assignment);
    });
  }

  /** The partition is another member's, or may be: its reader ends, and its work no longer counts. */
  function drop(assignment: Assignment): void {
    const { partition } = assignment.lease;
    if (held.get(partition) !== assignment) return;
    held.delete(partition);
    assignment.reader.abort();
    ending.set(
      partition,
      assignment.reader.ended.then(() => void ending.delete(partition)),
    );
  }

  function dropExpired(): void {
    const nowMs = clock.nowMs();
    for (const assignment of held.values()) if (assignment.leaseUntilMs <= nowMs) drop(assignment);
    if (held.size === 0) joined = false;
  }

  /** Ends the reader while the lease is still renewed, so that its last commit counts, then frees the partition. */
  async function giveBack(partition: number): Promise<void> {
    const assignment = held.get(partition);
    if (assignment === undefined || assignment.leaving) return assignment?.reader.ended;
    assignment.leaving = true;
    assignment.reader.abort();
    await assignment.reader.ended;
    if (held.get(partition) !== assignment) return;
    held.delete(partition);
    try {
      await releaseLease(pool, self, assignment.lease);
    } catch (error) {
      logger.debug({ group, topic, partition, reason: errorMessage(error) }, 'a lease runs out by itself');
    }
  }

  async function leave(): Promise<void> {
    closing = true;
    await Promise.all([...held.keys()].map(giveBack));
    await Promise.all(ending.values());
    stopping.abort();
    await heartbeat;
    unfollow();
    joined = false;
    try {
      await leaveGroup(pool, self);
    } catch (error) {
      logger.debug({ group, topic, reason: errorMessage(error) }, 'a membership runs out by itself');
    }
  }

  return {
    status(): ConsumerStatus {
      const assignments = [...held.values()].filter(({ leaving }) => !leaving);
      return {
        joined,
        partitions: assignments.map(({ lease }) => lease.partition).sort((a, b) => a - b),
        stopped: stoppedAmong(assignments),
        lag: assignments.reduce((sum, assignment) => sum + lagOf(assignment, topic, watch), 0n),
        problem: problem ?? watch.problem(),
      };
    },

    askStart(partition) {
      held.get(partition)?.reader.askStart();
    },

    close() {
      closed ??= leave();
      return closed;
    },
  };
}

function stoppedAmong(assignments: readonly Assignment[]): Map<number, string> {
  const stopped = new Map<number, string>();
  for (const { lease, reader } of assignments) {
    const reason = reader.stopped();
    if (reason !== undefined) stopped.set(lease.partition, reason);
  }
  return stopped;
}

/** Where the position is not known yet, the group's offset stands for it. */
function lagOf({ lease, reader, groupOffset }: Assignment, topic: string, watch: BoundsWatch): bigint {
  const bounds = watch.bounds(topic, lease.partition);
  if (bounds === undefined) return 0n;
  const lag = bounds.latest - (reader.position() ?? groupOffset ?? bounds.earliest);
  return lag > 0n ? lag : 0n;
}
