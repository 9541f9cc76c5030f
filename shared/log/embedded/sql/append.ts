import { DURABLE, type Queryable } from '../../../postgres/pool.ts';
import { arrayText } from '../../../postgres/unnest.ts';

/** A record to append. Neither key nor headers may hold U+0000. */
export interface AppendedRecord {
  readonly topic: string;
  readonly partition: number;
  readonly key: string;
  readonly value: Buffer;
  /** An object of strings, as JSON; null: no headers. */
  readonly headers: string | null;
}

/** Where the records of one partition went: consecutive offsets from `first` on, in the order given. */
export interface AppendedRange {
  readonly topic: string;
  readonly partition: number;
  readonly count: number;
  /** Undefined where the partition does not exist: nothing was stored there. */
  readonly first: bigint | undefined;
}

/**
 * Appends all records in one statement, in the order given, and resolves with a range a partition. The partitions' rows
 * are locked in order and stay locked until the statement commits: so two such statements never deadlock, and no
 * offset becomes visible before a lower one.
 */
export async function appendRecords(
  db: Queryable,
  records: readonly AppendedRecord[],
  appendedAt: Date,
): Promise<AppendedRange[]> {
  const ranges = rangesOf(records);
  const columns = columnsOf(records, ranges);
  const result = await db.query<{ range: number; first: bigint }>(APPEND, [
    ranges.map((range) => range.topic),
    ranges.map((range) => range.partition),
    ranges.map((range) => range.count),
    arrayText('integer', columns.range),
    arrayText('integer', columns.index),
    arrayText('text', columns.key),
    arrayText('text', columns.headers),
    arrayText('integer', columns.start),
    arrayText('integer', columns.length),
    Buffer.concat(records.map((record) => record.value)),
    appendedAt,
  ]);
  const firsts = new Map(result.rows.map((row) => [row.range, row.first]));
  return ranges.map((range, position) => ({ ...range, first: firsts.get(position) }));
}

// The values travel as one bytea, cut here: an array of bytea would go as hexadecimal text, twice the size. The settings
// of a transaction come with the one statement: two round trips more would be a third of what an append takes.
const APPEND = `
  WITH durable AS MATERIALIZED (
    ${DURABLE}
  ), wanted AS (
    SELECT topic, partition, records, range - 1 AS range
    FROM (SELECT count(mode) FROM durable) AS settled,
      unnest($1::text[], $2::int[], $3::int[]) WITH ORDINALITY AS w (topic, partition, records, range)
  ), locked AS (
    SELECT p.topic, p.partition, p.next_offset AS first, w.records, w.range
    FROM log_partitions p JOIN wanted w USING (topic, partition)
    ORDER BY p.topic, p.partition
    FOR UPDATE OF p
  ), taken AS (
    UPDATE log_partitions p SET next_offset = l.first + l.records
    FROM locked l
    WHERE p.topic = l.topic AND p.partition = l.partition
    RETURNING p.topic, p.partition, l.first, l.range
  ), appended AS (
    INSERT INTO log_records (topic, partition, "offset", key, value, headers, appended_at)
    SELECT t.topic, t.partition, t.first + r.index, r.key, substring($10::bytea FROM r.start FOR r.length),
           nullif(r.headers, '')::json, $11::timestamptz
    FROM unnest($4::int[], $5::int[], $6::text[], $7::text[], $8::int[], $9::int[])
           AS r (range, index, key, headers, start, length)
      JOIN taken t USING (range)
  )
  SELECT range::int AS range, first FROM taken`;

function rangesOf(records: readonly AppendedRecord[]): { topic: string; partition: number; count: number }[] {
  const byName = new Map<string, { topic: string; partition: number; count: number }>();
  for (const { topic, partition } of records) {
    const range = byName.get(`${partition} ${topic}`);
    if (range) range.count += 1;
    else byName.set(`${partition} ${topic}`, { topic, partition, count: 1 });
  }
  return [...byName.values()];
}

function columnsOf(
  records: readonly AppendedRecord[],
  ranges: readonly { topic: string; partition: number }[],
) {
  const rangeNumbers = new Map(
    ranges.map((range, position) => [`${range.partition} ${range.topic}`, position]),
  );
  const nextIndex = new Array<number>(ranges.length).fill(0);
  const columns = {
    range: [] as number[],
    index: [] as number[],
    key: [] as string[],
    headers: [] as string[],
    start: [] as number[],
    length: [] as number[],
  };
  // substring() counts from 1.
  let start = 1;
  for (const record of records) {
    const range = rangeNumbers.get(`${record.partition} ${record.topic}`)!;
    columns.range.push(range);
    columns.index.push(nextIndex[range]!++);
    columns.key.push(record.key);
    // Not NULL, which with array_nulls = off is a text.
    columns.headers.push(record.headers ?? '');
    columns.start.push(start);
    columns.length.push(record.value.length);
    start += record.value.length;
  }
  return columns;
}
