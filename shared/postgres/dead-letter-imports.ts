import { deadLetterTopicOf, KINDS, topicOf } from '../contracts/kinds.ts';
import type { LogReader } from '../log/log.ts';
import type { Queryable } from './pool.ts';

/**
 * The offset at which the import of each partition continues, by topic. Leaves out partitions that
 * were never imported.
 */
type ImportedOffsets = ReadonlyMap<string, ReadonlyMap<number, bigint>>;

async function readImportedOffsets(db: Queryable, topics: readonly string[]): Promise<ImportedOffsets> {
  const { rows } = await db.query<{ topic: string; partition: number; nextOffset: bigint }>(
    'select topic, partition, next_offset as "nextOffset" from dead_letter_imports where topic = any($1::text[])',
    [topics],
  );
  const offsets = new Map<string, Map<number, bigint>>();
  for (const { topic, partition, nextOffset } of rows) {
    offsets.set(topic, (offsets.get(topic) ?? new Map()).set(partition, nextOffset));
  }
  return offsets;
}

/**
 * A partition of a dead-letter topic of earlier releases with records that are not yet imported:
 * from this offset to the end.
 */
export interface ImportRange {
  readonly topic: string;
  readonly partition: number;
  readonly from: bigint;
  readonly to: bigint;
  /**
   * The offset at which the import continues, which another import may move meanwhile; undefined if
   * the partition was never imported.
   */
  readonly next: bigint | undefined;
}

/**
 * Returns the ranges of the dead-letter topics of earlier releases that are not yet imported into
 * the table. Throws a retryable AppError `LOG_UNAVAILABLE`.
 */
export async function findImports(db: Queryable, reader: LogReader, prefix: string): Promise<ImportRange[]> {
  const topics = KINDS.map((kind) => deadLetterTopicOf(topicOf(prefix, kind)));
  const bounds = await reader.bounds(topics);
  const imported = await readImportedOffsets(db, topics);
  return [...bounds].flatMap(([topic, partitions]) =>
    [...partitions]
      .sort(([a], [b]) => a - b)
      .flatMap(([partition, { earliest, latest }]) => {
        const next = imported.get(topic)?.get(partition);
        // A partition that ends before the stored offset was recreated.
        const from = next !== undefined && next > earliest && next <= latest ? next : earliest;
        return from < latest ? [{ topic, partition, from, to: latest, next }] : [];
      }),
  );
}
