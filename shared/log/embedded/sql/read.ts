import { epochMs } from '../../../postgres/epoch-ms.ts';
import type { Queryable } from '../../../postgres/pool.ts';

/** Which records of a partition to read. */
export interface ReadRange {
  readonly topic: string;
  readonly partition: number;
  /** The first offset wanted; where it is deleted, reading begins with the first one there is. */
  readonly from: bigint;
  readonly recordsMax: number;
  /** Bytes of values; the first record comes whatever its size. */
  readonly bytesMax: number;
}

/** A record as it is stored. */
export interface StoredRecord {
  readonly offset: bigint;
  readonly key: string;
  readonly value: Buffer;
  readonly headers: Record<string, string> | null;
  /** Milliseconds since the epoch. */
  readonly appended_at_ms: bigint;
}

/** Reads the next records of a partition, in order of their offsets. */
export async function readRecords(db: Queryable, range: ReadRange): Promise<StoredRecord[]> {
  const result = await db.query<StoredRecord>(
    `SELECT "offset", key, value, headers, ${epochMs('appended_at')} as appended_at_ms
     FROM (
       SELECT *, sum(octet_length(value)) OVER (ORDER BY "offset") - octet_length(value) AS bytes_before
       FROM (
         SELECT * FROM log_records
         WHERE topic = $1 AND partition = $2 AND "offset" >= $3
         ORDER BY "offset" LIMIT $4
       ) AS next
     ) AS measured
     WHERE bytes_before = 0 OR bytes_before + octet_length(value) <= $5
     ORDER BY "offset"`,
    [range.topic, range.partition, range.from, range.recordsMax, range.bytesMax],
  );
  return result.rows;
}
