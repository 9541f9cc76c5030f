import type { FirstPosition, TopicPosition } from '../../shared/contracts/first-position.ts';
import type { Replay } from '../../shared/postgres/dead-letter-replays.ts';
import { columnsOf, comparePositions } from '../../shared/postgres/dead-letters.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/** A dead letter whose replay is requested. */
export interface RequestedReplay extends FirstPosition {
  readonly replay: number;
  readonly bytes: number;
  /** Whether the dead letter has a value; it may have been erased after the request. */
  readonly hasValue: boolean;
}

/** Milliseconds after which the database counts as unavailable. */
const DEADLINE_MS = 5000;

/** As in the index `dead_letters_requested`. */
const REQUESTED = `state = 'replaying' and replay_requested_at = state_at`;

/** Returns the tenants with requested replays of the topics. */
export async function findRequestingTenants(pool: Pool, topics: readonly string[]): Promise<string[]> {
  const rows = await queryWithDeadline<{ tenantId: string }>(
    pool,
    DEADLINE_MS,
    `select distinct tenant_id as "tenantId" from dead_letters where topic = any($1::text[]) and ${REQUESTED} order by 1`,
    [topics],
  );
  return rows.map(({ tenantId }) => tenantId);
}

/** Returns up to `limit` requested replays of a tenant, in the order of their positions. */
export async function findRequestedReplays(
  pool: Pool,
  topics: readonly string[],
  tenantId: string,
  limit: number,
): Promise<RequestedReplay[]> {
  const rows = await queryWithDeadline<Omit<RequestedReplay, 'bytes'> & { bytes: bigint }>(
    pool,
    DEADLINE_MS,
    `select topic, generation, partition, "offset", replay, bytes, value is not null as "hasValue"
       from dead_letters
      where tenant_id = $2 and topic = any($1::text[]) and ${REQUESTED}
      order by topic, generation, partition, "offset" limit $3`,
    [topics, tenantId, limit],
  );
  return rows.map((row) => ({ ...row, bytes: Number(row.bytes) }));
}

/** Returns the records of requested replays of one topic, in the order of their positions. */
export async function readRequestedReplays(
  pool: Pool,
  topic: string,
  positions: readonly TopicPosition[],
): Promise<Replay[]> {
  const rows = await queryWithDeadline<Replay>(
    pool,
    DEADLINE_MS,
    `select generation, partition, "offset", replay, key, value, headers
       from dead_letters
      where topic = $1
        and (generation, partition, "offset") in (
          select g, p, o from unnest($2::integer[], $3::integer[], $4::bigint[]) as sent (g, p, o))
        and ${REQUESTED} and value is not null`,
    [topic, ...columnsOf(positions)],
  );
  return rows.sort(comparePositions);
}

/** Ends the requests of replays of one topic that are published. */
export async function endRequests(pool: Pool, topic: string, replays: readonly Replay[]): Promise<void> {
  await queryWithDeadline(
    pool,
    DEADLINE_MS,
    `update dead_letters d set replay_requested_at = null
       from unnest($2::integer[], $3::integer[], $4::bigint[], $5::integer[]) as sent (generation, partition, "offset", replay)
      where d.topic = $1 and d.generation = sent.generation and d.partition = sent.partition
        and d."offset" = sent."offset" and d.replay = sent.replay and d.replay_requested_at is not null`,
    [topic, ...columnsOf(replays), replays.map(({ replay }) => replay)],
  );
}
