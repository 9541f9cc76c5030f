import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { type PositionRow, positionsOf } from '../../shared/postgres/positions.ts';

/** What a topic's partitions are set to, all in one transaction. */
export interface AcceptedTopic {
  readonly topic: string;
  /** The topic's from now on, and that of each of its positions. */
  readonly generation: number;
  /** Numbers of partitions to register, by topic. */
  readonly layouts: ReadonlyMap<string, number>;
  /** Partitions that stay where they are, or start at 0 where none of their records was begun. */
  readonly stay: readonly number[];
  readonly move: readonly MovedPosition[];
}

export interface MovedPosition {
  readonly partition: number;
  /** Where it was found; undefined where none of its records was begun. */
  readonly from: PositionRow | undefined;
  readonly to: bigint;
}

/**
 * Sets the topic's generation and positions. Resolves with false, and changes nothing, where the generation or one of
 * the positions to move is not the one that was found: a worker or another command was faster.
 */
export async function acceptLog(
  pool: Pool,
  accepted: AcceptedTopic,
  generationFound: number,
  nowMs: number,
): Promise<boolean> {
  return await inTransaction(pool, async (client) => {
    const { topic, generation, layouts, stay, move } = accepted;
    const locked = await client.query<{ generation: number }>(
      'select generation from log_topics where topic = $1 for update',
      [topic],
    );
    if (locked.rows[0]?.generation !== generationFound) return false;
    const positions = await positionsOf(client, topic, { lock: true });
    if (!move.every(({ partition, from }) => isSame(positions.get(partition), from))) return false;
    await client.query('update log_topics set generation = $2 where topic = $1', [topic, generation]);
    for (const [name, partitions] of layouts) {
      await client.query('update log_topics set partitions = $2 where topic = $1', [name, partitions]);
    }
    await keep(client, topic, stay, generation, nowMs);
    await startAt(client, topic, move, generation, nowMs);
    return true;
  });
}

/** A row is made where there is none: a worker that does not know of the new generation must find it. */
async function keep(
  db: Queryable,
  topic: string,
  partitions: readonly number[],
  generation: number,
  nowMs: number,
): Promise<void> {
  await db.query(
    `insert into log_positions (topic, partition, generation, next_offset, updated_at)
     select $1, partition, $3, 0, $4 from unnest($2::integer[]) as sent (partition)
     on conflict (topic, partition) do update set generation = excluded.generation, updated_at = excluded.updated_at`,
    [topic, partitions, generation, new Date(nowMs).toISOString()],
  );
}

async function startAt(
  db: Queryable,
  topic: string,
  move: readonly MovedPosition[],
  generation: number,
  nowMs: number,
): Promise<void> {
  await db.query(
    `insert into log_positions (topic, partition, generation, next_offset, updated_at)
     select $1, partition, $4, next_offset, $5
     from unnest($2::integer[], $3::bigint[]) as sent (partition, next_offset)
     on conflict (topic, partition) do update
     set generation = excluded.generation,
         next_offset = excluded.next_offset,
         last_id = null,
         starts = 0,
         suspect_end = null,
         alone_offset = null,
         alone_starts = 0,
         updated_at = excluded.updated_at`,
    [
      topic,
      move.map(({ partition }) => partition),
      move.map(({ to }) => to),
      generation,
      new Date(nowMs).toISOString(),
    ],
  );
}

function isSame(one: PositionRow | undefined, other: PositionRow | undefined): boolean {
  return (
    one?.generation === other?.generation &&
    one?.nextOffset === other?.nextOffset &&
    one?.lastId === other?.lastId
  );
}
