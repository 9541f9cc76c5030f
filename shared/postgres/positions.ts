import type { Queryable } from './pool.ts';

/** How far a partition is stored, and what is suspected of having killed the process. */
export interface PositionRow {
  readonly generation: number;
  readonly nextOffset: bigint;
  /** Fingerprint of the record at nextOffset - 1; null before the first. */
  readonly lastId: string | null;
  /** Starts since the last commit, the running one included. */
  readonly starts: number;
  /** Up to this offset (exclusive) records go one at a time; null when nothing is suspected. */
  readonly suspectEnd: bigint | null;
  /** The record that was begun alone last, and in how many starts it was. */
  readonly aloneOffset: bigint | null;
  readonly aloneStarts: number;
}

export interface PartitionKey {
  readonly topic: string;
  readonly partition: number;
}

/** Starts without a commit after which a partition's next records go one at a time. */
const STARTS_BEFORE_SUSPICION = 3;

const COLUMNS = `generation, next_offset as "nextOffset", last_id as "lastId", starts, suspect_end as "suspectEnd",
  alone_offset as "aloneOffset", alone_starts as "aloneStarts"`;

/** The partition's position; undefined when none of its records was ever begun. */
export async function loadPosition(db: Queryable, key: PartitionKey): Promise<PositionRow | undefined> {
  const { rows } = await db.query<PositionRow>(
    `select ${COLUMNS} from log_positions where topic = $1 and partition = $2`,
    [key.topic, key.partition],
  );
  return rows[0];
}

/** The same, locked until the transaction ends: only its holder can write the partition's records. */
export async function lockPosition(db: Queryable, key: PartitionKey): Promise<PositionRow | undefined> {
  const { rows } = await db.query<PositionRow>(
    `select ${COLUMNS} from log_positions where topic = $1 and partition = $2 for update`,
    [key.topic, key.partition],
  );
  return rows[0];
}

/** All positions of a topic by partition; with `lock` locked in their order until the transaction ends. */
export async function positionsOf(
  db: Queryable,
  topic: string,
  { lock = false } = {},
): Promise<Map<number, PositionRow>> {
  const { rows } = await db.query<PositionRow & { partition: number }>(
    `select partition, ${COLUMNS} from log_positions where topic = $1 order by partition${lock ? ' for update' : ''}`,
    [topic],
  );
  return new Map(rows.map(({ partition, ...position }) => [partition, position]));
}

export interface StartOptions {
  /** The generation of a row that does not exist yet. */
  readonly generation: number;
  /** Records that a batch holds at most: how far the batch that killed the process can have reached. */
  readonly batchRecordsMax: number;
  /** The partition's end now. */
  readonly latest: bigint;
  readonly nowMs: number;
}

/**
 * Counts a start of the partition, before its first batch; creates the row at the very first. A range of suspects is never
 * empty: of a partition at whose end nothing waits nothing is suspected, until a later start finds records.
 */
export async function countStart(
  db: Queryable,
  key: PartitionKey,
  options: StartOptions,
): Promise<PositionRow> {
  const { rows } = await db.query<PositionRow>(
    `insert into log_positions as p (topic, partition, generation, next_offset, starts, updated_at)
     values ($1, $2, $3, 0, 1, $4)
     on conflict (topic, partition) do update
     set starts = p.starts + 1,
         suspect_end = case
           when p.suspect_end > p.next_offset then p.suspect_end
           when p.starts >= $5 and $7 > p.next_offset then least(p.next_offset + $6, $7)
         end,
         updated_at = $4
     returning ${COLUMNS}`,
    [
      key.topic,
      key.partition,
      options.generation,
      new Date(options.nowMs).toISOString(),
      STARTS_BEFORE_SUSPICION,
      options.batchRecordsMax,
      options.latest,
    ],
  );
  return rows[0]!;
}

/** Takes a start back that ended without a commit, but in order; with the offset whose lone processing it ended. */
export async function uncountStart(
  db: Queryable,
  key: PartitionKey,
  aloneOffset: bigint | null,
  nowMs: number,
): Promise<void> {
  await db.query(
    `update log_positions
     set starts = greatest(starts - 1, 0),
         alone_starts = case when alone_offset = $3 then greatest(alone_starts - 1, 0) else alone_starts end,
         updated_at = $4
     where topic = $1 and partition = $2`,
    [key.topic, key.partition, aloneOffset, new Date(nowMs).toISOString()],
  );
}

/**
 * Persists that a record is now begun alone, and resolves with the number of earlier starts in which it was: they
 * all ended without a commit.
 */
export async function countAlone(
  db: Queryable,
  key: PartitionKey,
  offset: bigint,
  nowMs: number,
): Promise<number> {
  const { rows } = await db.query<{ alone_starts: number }>(
    `update log_positions
     set alone_starts = case when alone_offset = $3 then alone_starts + 1 else 1 end,
         alone_offset = $3,
         updated_at = $4
     where topic = $1 and partition = $2
     returning alone_starts`,
    [key.topic, key.partition, offset, new Date(nowMs).toISOString()],
  );
  return (rows[0]?.alone_starts ?? 1) - 1;
}

/** Takes back that a record was begun alone: it has to wait, and what ends the process meanwhile is not its fault. */
export async function uncountAlone(
  db: Queryable,
  key: PartitionKey,
  offset: bigint,
  nowMs: number,
): Promise<void> {
  await db.query(
    `update log_positions
     set alone_starts = greatest(alone_starts - 1, 0), updated_at = $4
     where topic = $1 and partition = $2 and alone_offset = $3`,
    [key.topic, key.partition, offset, new Date(nowMs).toISOString()],
  );
}

/** Moves the position behind what the transaction stored. Suspicion ends with a commit past its range. */
export async function advancePosition(
  db: Queryable,
  key: PartitionKey,
  next: { readonly nextOffset: bigint; readonly lastId: string | null; readonly nowMs: number },
): Promise<void> {
  await db.query(
    `update log_positions
     set next_offset = $3,
         last_id = $4,
         starts = case when suspect_end > $3 then starts else 0 end,
         suspect_end = case when suspect_end > $3 then suspect_end end,
         alone_offset = null,
         alone_starts = 0,
         updated_at = $5
     where topic = $1 and partition = $2`,
    [key.topic, key.partition, next.nextOffset, next.lastId, new Date(next.nowMs).toISOString()],
  );
}
