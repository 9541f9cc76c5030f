import { ALL_TYPES, addCounts, COUNT_COLUMNS, countsOf, type MessageCounts } from '../message-sent/counts.ts';
import {
  addConversation,
  addConversations,
  type ConversationSums,
  decodeHistogram,
  decodeRollups,
  TIMES,
  type TimeName,
} from '../message-sent/delta.ts';
import type { Histogram } from '../message-sent/histogram.ts';
import type { Queryable } from './pool.ts';
import { epochMs } from './times.ts';

/** What to sum, and over which messages of a tenant. */
export interface RollupRange {
  readonly tenantId: string;
  /** Half-open, at quarter-hours, in milliseconds. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Whether each quarter-hour has sums of its own. */
  readonly byQuarterHour: boolean;
}

/** The counts of one augmentation type. */
export interface Rollup {
  /** Start of the quarter-hour; undefined if the counts are those of the whole range. */
  readonly quarterHourMs: number | undefined;
  /** Undefined: all messages. */
  readonly augmentationType: string | undefined;
  readonly counts: MessageCounts;
  /** Returns the histogram of a time, which it decodes at each call. */
  histogramOf(time: TimeName): Histogram;
}

interface Row {
  readonly quarterHourMs: number | null;
  /** Null for a delta, which has all types. */
  readonly type: string | null;
  readonly counts: readonly string[];
  readonly timeToAction: Buffer;
  readonly craftingTime: Buffer;
  readonly dwellTime: Buffer;
  readonly delta: Buffer;
}

interface Sums {
  readonly quarterHourMs: number | undefined;
  readonly type: string;
  readonly counts: number[];
  readonly times: Buffer[][];
}

/**
 * Resolves with the counts of MessageSent of a range by augmentation type, in no order. One
 * statement reads rollups and deltas, because between two statements a delta could be compacted.
 */
export async function readRollups(db: Queryable, range: RollupRange): Promise<Rollup[]> {
  const { tenantId, fromMs, toMs, byQuarterHour } = range;
  const { rows } = await db.query<Row>(
    `select case when $4 then ${epochMs('quarter_hour')} end as "quarterHourMs", augmentation_type as type,
            array[${COUNT_COLUMNS.map((name) => `sum(${name})`).join(', ')}]::text[] as counts,
            string_agg(time_to_action, '') as "timeToAction", string_agg(crafting_time, '') as "craftingTime",
            string_agg(dwell_time, '') as "dwellTime", '\\x'::bytea as delta
       from message_sent_rollups
      where tenant_id = $1 and quarter_hour >= $2 and quarter_hour < $3
      group by 1, 2
      union all
     select case when $4 then ${epochMs('quarter_hour')} end, null, null, null, null, null, rollups
       from message_sent_deltas
      where tenant_id = $1 and quarter_hour >= $2 and quarter_hour < $3`,
    [tenantId, new Date(fromMs), new Date(toMs), byQuarterHour],
  );
  return [...sumRows(rows).values()].map(toRollup);
}

interface ConversationRow {
  readonly conversationId: string;
  readonly externalConversationId: string;
  /** Null for a delta, which has several conversations. */
  readonly counts: readonly string[] | null;
  readonly delta: Buffer;
}

/**
 * Resolves with the counts of MessageSent of a range by conversation, in no order, from one statement
 * as {@link readRollups}.
 */
export async function readConversationSums(
  db: Queryable,
  { tenantId, fromMs, toMs }: Omit<RollupRange, 'byQuarterHour'>,
): Promise<ConversationSums[]> {
  const { rows } = await db.query<ConversationRow>(
    `select conversation_id as "conversationId", external_conversation_id as "externalConversationId",
            array[${COUNT_COLUMNS.map((name) => `sum(${name})`).join(', ')}]::text[] as counts, null::bytea as delta
       from message_sent_conversations
      where tenant_id = $1 and quarter_hour >= $2 and quarter_hour < $3
      group by 1, 2
      union all
     select null, null, null, conversations from message_sent_deltas
      where tenant_id = $1 and quarter_hour >= $2 and quarter_hour < $3`,
    [tenantId, new Date(fromMs), new Date(toMs)],
  );
  const sums = new Map<string, ConversationSums>();
  for (const { counts, delta, ...id } of rows) {
    if (counts) addConversation(sums, { ...id, counts: counts.map(Number) });
    else addConversations(sums, delta);
  }
  return [...sums.values()];
}

function sumRows(rows: readonly Row[]): Map<string, Sums> {
  const all = new Map<string, Sums>();
  const add = ({ quarterHourMs }: Row, type: string, counts: readonly number[], times: readonly Buffer[]) => {
    const key = `${quarterHourMs}/${type}`;
    const sums = all.get(key);
    if (!sums) {
      all.set(key, {
        quarterHourMs: quarterHourMs ?? undefined,
        type,
        counts: [...counts],
        times: times.map((histogram) => [histogram]),
      });
      return;
    }
    addCounts(sums.counts, counts);
    for (const [i, histogram] of times.entries()) sums.times[i]!.push(histogram);
  };
  for (const row of rows) {
    if (row.type === null)
      decodeRollups(row.delta, (type, { counts, times }) => add(row, type, counts, times));
    else add(row, row.type, row.counts.map(Number), [row.timeToAction, row.craftingTime, row.dwellTime]);
  }
  return all;
}

function toRollup({ quarterHourMs, type, counts, times }: Sums): Rollup {
  return {
    quarterHourMs,
    augmentationType: type === ALL_TYPES ? undefined : type,
    counts: countsOf(counts),
    histogramOf: (time) => decodeHistogram(Buffer.concat(times[TIMES.indexOf(time)]!)),
  };
}
