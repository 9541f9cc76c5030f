import { runInSlices } from '../map-in-slices.ts';
import { BLOCK_MINUTES, type BlockRange, coverWithBlocks } from '../message-sent/blocks.ts';
import { ALL_TYPES, addCounts, COUNT_COLUMNS, type Counts } from '../message-sent/counts.ts';
import {
  decodeHistogram,
  decodeRollups,
  TIMES,
  type TimeName,
  type TypeSums,
} from '../message-sent/delta.ts';
import type { Histogram } from '../message-sent/histogram.ts';
import type { Queryable } from './pool.ts';
import { isoTime } from './times.ts';

/** What to sum, and over which messages of a tenant. */
export interface CountRange {
  readonly tenantId: string;
  /** Where the intervals begin, then the end of the last one: sorted, at quarter-hours, in milliseconds. */
  readonly bounds: readonly number[];
  /** Whether also the counts of each augmentation type are read. Default: only those of all messages. */
  readonly byType?: boolean;
}

/** The counts of one augmentation type in one interval. */
export interface TypeCounts {
  /** Number of the interval, from 0. */
  readonly intervalIndex: number;
  /** Undefined: all messages. */
  readonly augmentationType: string | undefined;
  readonly counts: Counts;
  /** Returns the histogram of a time, which it decodes at each call. */
  histogramOf(time: TimeName): Histogram;
}

interface Row {
  readonly intervalIndex: number;
  /** The rollups of a block or delta; null for counts of an earlier release. */
  readonly rollups: Buffer | null;
  readonly type: string;
  readonly counts: readonly string[];
  readonly timeToAction: Buffer;
  readonly craftingTime: Buffer;
  readonly dwellTime: Buffer;
}

interface Sums {
  readonly intervalIndex: number;
  readonly type: string;
  readonly counts: Counts;
  readonly times: Buffer[][];
}

/**
 * Resolves with the counts of MessageSent by augmentation type, in no order. Intervals without
 * messages are not among them. One statement reads blocks and deltas, because between two statements
 * a delta could be compacted.
 */
export async function readTypeCounts(db: Queryable, range: CountRange): Promise<TypeCounts[]> {
  const { tenantId, bounds, byType = false } = range;
  const blocks = coverWithBlocks(bounds);
  const { rows } = await db.query<Row>(
    `select width_bucket(starts_at, $2::timestamptz[]) - 1 as "intervalIndex", rollups, null as type, null::text[] as counts,
            null::bytea as "timeToAction", null::bytea as "craftingTime", null::bytea as "dwellTime"
       from message_sent_blocks
      where tenant_id = $1
        and (minutes = 1440 and starts_at = any ($3::timestamptz[])
             or minutes = 60 and starts_at = any ($4::timestamptz[])
             or minutes = 15 and starts_at = any ($5::timestamptz[]))
      union all
     select width_bucket(quarter_hour, $2::timestamptz[]) - 1, rollups, null, null, null, null, null
       from message_sent_deltas
      where tenant_id = $1 and quarter_hour >= $6 and quarter_hour < $7
      union all
     select width_bucket(quarter_hour, $2::timestamptz[]) - 1, null, augmentation_type,
            array[${COUNT_COLUMNS.join(', ')}]::text[], time_to_action, crafting_time, dwell_time
       from message_sent_rollups
      where tenant_id = $1 and quarter_hour >= $6 and quarter_hour < $7`,
    [
      tenantId,
      bounds.map(isoTime),
      ...BLOCK_MINUTES.map((minutes) => startsOf(blocks, minutes)),
      new Date(bounds[0]!),
      new Date(bounds.at(-1)!),
    ],
  );
  const sums = await runInSlices(sumRows(rows, byType));
  return [...sums.values()].map(toTypeCounts);
}

/**
 * Returns the starts of the blocks of a size. A list makes the database look up each of them, where
 * it could read all blocks of the tenant for a join with ranges.
 */
function startsOf(blocks: readonly BlockRange[], minutes: number): string[] {
  const starts: string[] = [];
  for (const { fromMs, toMs } of blocks.filter((range) => range.minutes === minutes)) {
    for (let startMs = fromMs; startMs < toMs; startMs += minutes * 60_000) starts.push(isoTime(startMs));
  }
  return starts;
}

/** Returns the number of the interval that contains a time; -1 if none does. */
export function intervalIndexOf(bounds: readonly number[], timeMs: number): number {
  if (timeMs < bounds[0]! || timeMs >= bounds.at(-1)!) return -1;
  let [low, high] = [0, bounds.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (bounds[middle]! <= timeMs) low = middle;
    else high = middle;
  }
  return low;
}

function* sumRows(rows: readonly Row[], byType: boolean): Generator<undefined, Map<string, Sums>, undefined> {
  const all = new Map<string, Sums>();
  const add = (intervalIndex: number, type: string, { counts, times }: TypeSums<Buffer>) => {
    if (!byType && type !== ALL_TYPES) return;
    const key = `${intervalIndex}/${type}`;
    const sums = all.get(key);
    if (!sums) {
      all.set(key, {
        intervalIndex,
        type,
        counts: [...counts],
        times: times.map((histogram) => [histogram]),
      });
      return;
    }
    addCounts(sums.counts, counts);
    for (const [i, histogram] of times.entries()) sums.times[i]!.push(histogram);
  };
  for (const { intervalIndex, rollups, type, ...row } of rows) {
    if (rollups) decodeRollups(rollups, (of, sums) => add(intervalIndex, of, sums));
    else {
      const { timeToAction, craftingTime, dwellTime } = row;
      const times = [timeToAction, craftingTime, dwellTime];
      add(intervalIndex, type, { counts: row.counts.map(Number), times });
    }
    yield;
  }
  return all;
}

function toTypeCounts({ intervalIndex, type, counts, times }: Sums): TypeCounts {
  return {
    intervalIndex,
    augmentationType: type === ALL_TYPES ? undefined : type,
    counts,
    histogramOf: (time) => decodeHistogram(Buffer.concat(times[TIMES.indexOf(time)]!)),
  };
}
