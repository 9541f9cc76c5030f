import { deadLetterTopicOf, KINDS, topicOf } from '../contracts/kinds.ts';
import type { LogReader } from '../log/log.ts';
import { columnsOf, type FirstPosition } from './dead-letters.ts';
import type { Queryable } from './pool.ts';

/** How far the dead-letter topics of earlier releases are imported into the table. */

/** Where the import of each partition continues, by topic; what was never imported is left out. */
export type ImportedOffsets = ReadonlyMap<string, ReadonlyMap<number, bigint>>;

export async function readImportedOffsets(
  db: Queryable,
  topics: readonly string[],
): Promise<ImportedOffsets> {
  const { rows } = await db.query<{ topic: string; partition: number; next_offset: bigint }>(
    'select topic, partition, next_offset from dead_letter_imports where topic = any($1::text[])',
    [topics],
  );
  const offsets = new Map<string, Map<number, bigint>>();
  for (const { topic, partition, next_offset } of rows) {
    offsets.set(topic, (offsets.get(topic) ?? new Map()).set(partition, next_offset));
  }
  return offsets;
}

/**
 * A partition of a dead-letter topic of earlier releases that holds records which are not imported:
 * from here to its end.
 */
export interface ImportRange {
  readonly topic: string;
  readonly partition: number;
  readonly from: bigint;
  readonly to: bigint;
}

/**
 * Returns what the dead-letter topics of earlier releases hold that is not in the table of dead
 * letters, by partition. Throws a retryable AppError `LOG_UNAVAILABLE`.
 */
export async function findImports(db: Queryable, reader: LogReader, prefix: string): Promise<ImportRange[]> {
  const topics = KINDS.map((kind) => deadLetterTopicOf(topicOf(prefix, kind)));
  const bounds = await reader.bounds(topics);
  const imported = await readImportedOffsets(db, topics);
  return [...bounds].flatMap(([topic, partitions]) =>
    [...partitions]
      .sort(([a], [b]) => a - b)
      .flatMap(([partition, { earliest, latest }]) => {
        const next = imported.get(topic)?.get(partition) ?? 0n;
        // A partition that ends below is another one.
        const from = next > earliest && next <= latest ? next : earliest;
        return from < latest ? [{ topic, partition, from, to: latest }] : [];
      }),
  );
}

/**
 * Moves the import of a partition from `before` (undefined: it never began) to `to`, in the
 * caller's transaction. Resolves with false where another import did.
 */
export async function advanceImport(
  db: Queryable,
  { topic, partition }: { readonly topic: string; readonly partition: number },
  before: bigint | undefined,
  to: bigint,
): Promise<boolean> {
  const { rowCount } = await db.query(
    before === undefined
      ? `insert into dead_letter_imports (topic, partition, next_offset)
         select $1, $2, $4 where $3::bigint is null on conflict (topic, partition) do nothing`
      : `update dead_letter_imports set next_offset = $4
          where topic = $1 and partition = $2 and next_offset = $3`,
    [topic, partition, before ?? null, to],
  );
  return rowCount === 1;
}

/**
 * A mark in a dead-letter topic: dead letters of that position, up to an offset of the topic, are
 * settled.
 */
export interface Mark extends FirstPosition {
  readonly state: 'replayed' | 'dropped';
  readonly stateAtMs: number;
  readonly upTo: bigint;
}

/**
 * Settles the dead letters of marks, each position once, unless anything but the import has changed
 * them.
 */
export async function applyMarks(db: Queryable, topic: string, marks: readonly Mark[]): Promise<void> {
  await db.query(
    `update dead_letters d set state = sent.state, state_at = sent.state_at
       from unnest($2::integer[], $3::integer[], $4::bigint[], $5::text[], $6::timestamptz[], $7::bigint[])
            as sent (generation, partition, "offset", state, state_at, up_to)
      where d.topic = $1 and d.generation = sent.generation and d.partition = sent.partition
        and d."offset" = sent."offset" and d.imported_offset <= sent.up_to`,
    [
      topic,
      ...columnsOf(marks),
      marks.map(({ state }) => state),
      marks.map(({ stateAtMs }) => new Date(stateAtMs)),
      marks.map(({ upTo }) => upTo),
    ],
  );
}
