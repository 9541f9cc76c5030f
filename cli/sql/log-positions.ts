import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import { type PositionRow, positionsOf } from '../../shared/postgres/log-positions.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';

/** The position up to which a partition is stored. */
export interface StoredPosition {
  readonly topic: string;
  readonly partition: number;
  /** The first offset that is not stored. */
  readonly nextOffset: bigint;
}

/**
 * Returns the positions of the topics. A partition has a position once a worker has read its first
 * record.
 */
export async function listPositions(db: Queryable, topics: readonly string[]): Promise<StoredPosition[]> {
  const { rows } = await db.query<StoredPosition>(
    'select topic, partition, next_offset as "nextOffset" from log_positions where topic = any ($1::text[])',
    [topics],
  );
  return rows;
}

/** New positions for the partitions of a topic. */
export interface AcceptedTopic {
  readonly topic: string;
  /** The new generation of the topic and of each of its positions. */
  readonly generation: number;
  /** Number of partitions to store, by topic. */
  readonly layouts: ReadonlyMap<string, number>;
  /** Partitions that keep their position, or start at 0 without a position. */
  readonly stay: readonly number[];
  readonly move: readonly MovedPosition[];
}

export interface MovedPosition {
  readonly partition: number;
  /** The position that was read; undefined if there was none. */
  readonly from: PositionRow | undefined;
  readonly to: bigint;
}

/**
 * Sets the generation and the positions of a topic in one transaction. Returns false and changes
 * nothing if the generation or a position to move differs from the value that was read. In that
 * case a worker or another command has changed the value.
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
    if (!move.every(({ partition, from }) => isSamePosition(positions.get(partition), from))) return false;
    await client.query('update log_topics set generation = $2 where topic = $1', [topic, generation]);
    for (const [name, partitions] of layouts) {
      await client.query('update log_topics set partitions = $2 where topic = $1', [name, partitions]);
    }
    await keepPositions(client, topic, stay, generation, nowMs);
    await movePositions(client, topic, move, generation, nowMs);
    return true;
  });
}

/**
 * Sets the generation of these positions. Inserts missing rows too, so that a worker with the
 * earlier generation finds the new one.
 */
async function keepPositions(
  db: Queryable,
  topic: string,
  partitions: readonly number[],
  generation: number,
  nowMs: number,
): Promise<void> {
  const rows = partitions.map((partition) => ({ topic, partition, generation, nextOffset: 0n }));
  await insertRows(
    db,
    'log_positions',
    positionColumns(nowMs),
    rows,
    `on conflict (topic, partition) do update
     set generation = excluded.generation, updated_at = excluded.updated_at`,
  );
}

async function movePositions(
  db: Queryable,
  topic: string,
  move: readonly MovedPosition[],
  generation: number,
  nowMs: number,
): Promise<void> {
  const rows = move.map(({ partition, to }) => ({ topic, partition, generation, nextOffset: to }));
  await insertRows(
    db,
    'log_positions',
    positionColumns(nowMs),
    rows,
    `on conflict (topic, partition) do update
     set generation = excluded.generation,
         next_offset = excluded.next_offset,
         last_id = null,
         starts = 0,
         suspect_end = null,
         alone_offset = null,
         alone_starts = 0,
         updated_at = excluded.updated_at`,
  );
}

function positionColumns(nowMs: number): Column<StoredPosition & { readonly generation: number }>[] {
  return [
    { name: 'topic', type: 'text', value: ({ topic }) => topic },
    { name: 'partition', type: 'integer', value: ({ partition }) => partition },
    { name: 'generation', type: 'integer', value: ({ generation }) => generation },
    { name: 'next_offset', type: 'bigint', value: ({ nextOffset }) => nextOffset },
    { name: 'updated_at', type: 'timestamptz', value: () => nowMs },
  ];
}

function isSamePosition(one: PositionRow | undefined, other: PositionRow | undefined): boolean {
  return (
    one?.generation === other?.generation &&
    one?.nextOffset === other?.nextOffset &&
    one?.lastId === other?.lastId
  );
}
