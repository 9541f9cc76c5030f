import { runAtOnce } from '../../shared/map-in-slices.ts';
import { COUNT_COLUMNS, countsOf, QUARTER_HOUR_MS } from '../../shared/message-sent/counts.ts';
import { addConversation, addConversations, type ConversationSums } from '../../shared/message-sent/delta.ts';
import { readDataQuality } from '../../shared/postgres/data-quality.ts';
import { readTypeCounts } from '../../shared/postgres/message-sent-counts.ts';
import type { Pool, Queryable } from '../../shared/postgres/pool.ts';

/** A row of message_sent, with what is counted. */
export interface MessageRow {
  /** Its own time, to the millisecond. */
  readonly own_ms: number;
  readonly message_id: string;
  readonly quarter_hour: string;
  readonly conversation_id: string;
  readonly external_conversation_id: string | null;
  readonly augmentation_type: string[];
  readonly num_edits: number;
  readonly initial_suggestions_id: string;
  readonly phrase_autocomplete_presented_ct: number;
  readonly selected_suggestion_text: string;
  readonly selected_suggestions_id: string;
  readonly selected_suggestion_index: number;
  readonly time_to_action: number;
  readonly crafting_time: number;
  readonly dwell_time: number;
  readonly phrase_autocomplete_selected_ct: number;
  readonly omitted: number;
}

/** Names of the numbers, in the order of their bits; see the column `omitted`. */
const NUMBERS = [
  'num_edits',
  'phrase_autocomplete_presented_ct',
  'selected_suggestion_index',
  'time_to_action',
  'crafting_time',
  'dwell_time',
  'phrase_autocomplete_selected_ct',
] as const;

const FROM_MS = Date.parse('2026-01-01T00:00:00Z');
const TO_MS = Date.parse('2028-01-01T00:00:00Z');
const QUANTILES = [0, 0.5, 0.95, 1];
const ERROR_MAX = 0.02;

type Counted = Readonly<Record<string, Readonly<Record<string, number | string>>>>;

/**
 * Resolves with the counts of a tenant's messages twice: as its rollups and deltas have them, and
 * counted from its rows in the same snapshot. The times of a group are `ok`, or the estimated and
 * the exact quantiles if these differ by more than 2%.
 */
export async function countTwice(
  pool: Pool,
  tenantId: string,
): Promise<{ readonly rolledUp: Counted; readonly recounted: Counted }> {
  const client = await pool.connect();
  try {
    await client.query('begin isolation level repeatable read');
    const rows = await readRows(client, tenantId);
    const starts = [...new Set(rows.map(({ quarter_hour }) => Date.parse(`${quarter_hour}Z`)))];
    const bounds = [FROM_MS, ...starts, ...starts.map((start) => start + QUARTER_HOUR_MS), TO_MS];
    const quarterHours = [...new Set(bounds)].sort((a, b) => a - b);
    const byQuarterHour = await readTypeCounts(client, { tenantId, bounds: quarterHours, byType: true });
    const total = await readTypeCounts(client, { tenantId, bounds: [FROM_MS, TO_MS], byType: true });
    const conversations = await readConversationSums(client, tenantId);
    await client.query('commit');

    const recounted: Record<string, Record<string, number | string>> = {};
    const rolledUp: Record<string, Record<string, number | string>> = {};
    const counted = [
      ...byQuarterHour.map((group) => ({ ...group, when: timeText(quarterHours[group.intervalIndex]!) })),
      ...total.map((group) => ({ ...group, when: 'always' })),
    ];
    for (const { when, augmentationType, counts, histogramOf } of counted) {
      const type = augmentationType ?? 'all';
      const group = rows.filter(
        (row) =>
          (when === 'always' || row.quarter_hour === when) &&
          (type === 'all' || row.augmentation_type.includes(type)),
      );
      rolledUp[`${when} ${type}`] = {
        ...countsOf(counts),
        timeToAction: compareTimes(histogramOf('timeToAction'), sent(group, 'time_to_action')),
        craftingTime: compareTimes(histogramOf('craftingTime'), sent(group, 'crafting_time')),
        dwellTime: compareTimes(histogramOf('dwellTime'), sent(group, 'dwell_time')),
      };
    }
    for (const { conversationId, externalConversationId, counts } of conversations) {
      rolledUp[`conversation ${conversationId}/${externalConversationId}`] = { ...countsOf(counts) };
    }

    const add = (key: string, group: readonly MessageRow[], type?: string, times = {}) => {
      if (group.length > 0) recounted[key] = { ...recount(group, type), ...times };
    };
    const ok = { timeToAction: 'ok', craftingTime: 'ok', dwellTime: 'ok' };
    for (const when of ['always', ...new Set(rows.map(({ quarter_hour }) => quarter_hour))]) {
      const then = rows.filter((row) => when === 'always' || row.quarter_hour === when);
      add(`${when} all`, then, undefined, ok);
      for (const type of new Set(then.flatMap((row) => row.augmentation_type))) {
        add(
          `${when} ${type}`,
          then.filter((row) => row.augmentation_type.includes(type)),
          type,
          ok,
        );
      }
    }
    for (const key of new Set(rows.map(conversationOf))) {
      add(
        `conversation ${key}`,
        rows.filter((row) => conversationOf(row) === key),
      );
    }
    return { rolledUp, recounted };
  } finally {
    client.release();
  }
}

/** Resolves with a tenant's messages. */
export async function readRows(db: Queryable, tenantId: string): Promise<MessageRow[]> {
  const { rows } = await db.query<MessageRow>(
    `select to_char(date_bin('15 minutes', coalesce(timestamptz '1970-01-01 00:00Z' +
              make_interval(secs => div(occurred_at_ns, 1000000000)::float8), accepted_at),
              timestamptz '2000-01-01 00:00Z') at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as quarter_hour,
            coalesce(div(occurred_at_ns, 1000000), floor(extract(epoch from accepted_at) * 1000)) as own_ms, *
       from message_sent where tenant_id = $1`,
    [tenantId],
  );
  return rows;
}

/** Resolves with the counts by conversation, in no order. */
async function readConversationSums(db: Queryable, tenantId: string): Promise<ConversationSums[]> {
  const sums = new Map<string, ConversationSums>();
  const { rows } = await db.query<Omit<ConversationSums, 'counts'> & { counts: string[] }>(
    `select conversation_id as "conversationId", external_conversation_id as "externalConversationId",
            array[${COUNT_COLUMNS.join(', ')}]::text[] as counts
       from message_sent_conversations where tenant_id = $1`,
    [tenantId],
  );
  for (const { counts, ...id } of rows) addConversation(sums, { ...id, counts: counts.map(Number) });
  const encoded = await db.query<{ conversations: Buffer }>(
    `select conversations from message_sent_deltas where tenant_id = $1
      union all
     select conversations from message_sent_blocks where tenant_id = $1 and minutes = 15`,
    [tenantId],
  );
  for (const { conversations } of encoded.rows) runAtOnce(addConversations(sums, conversations));
  return [...sums.values()];
}

function timeText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
}

function conversationOf({ conversation_id, external_conversation_id }: MessageRow): string {
  return `${conversation_id}/${external_conversation_id ?? ''}`;
}

/** Returns the values of a number in the rows in which it was sent. */
export function sent(rows: readonly MessageRow[], name: (typeof NUMBERS)[number]): number[] {
  const bit = NUMBERS.indexOf(name);
  return rows.filter(({ omitted }) => Math.floor(omitted / 2 ** bit) % 2 === 0).map((row) => row[name]);
}

/** Returns the counts of messages, or of those of one augmentation type. */
export function recount(rows: readonly MessageRow[], type?: string): Record<string, number> {
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const indexes = sent(rows, 'selected_suggestion_index');
  const used = rows.filter(
    (row) =>
      row.augmentation_type.includes('AUTOSUGGEST') ||
      row.selected_suggestion_text + row.selected_suggestions_id !== '' ||
      sent([row], 'selected_suggestion_index').length > 0,
  );
  const us = (name: 'time_to_action' | 'crafting_time' | 'dwell_time') =>
    sum(sent(rows, name).map((seconds) => Math.round(Math.min(seconds, 1e6) * 1e6)));
  return {
    messages: rows.length,
    uses: sum(rows.map((row) => row.augmentation_type.filter((used) => !type || used === type).length)),
    edits: sum(sent(rows, 'num_edits')),
    sentUnedited: sent(used, 'num_edits').filter((edits) => edits === 0).length,
    suggestionsShown: rows.filter((row) => row.initial_suggestions_id !== '' || used.includes(row)).length,
    suggestionsUsed: used.length,
    selectedFirst: indexes.filter((index) => index === 1).length,
    selectedSecond: indexes.filter((index) => index === 2).length,
    selectedThird: indexes.filter((index) => index === 3).length,
    selectedLater: indexes.filter((index) => index > 3).length,
    phrasesPresented: sum(sent(rows, 'phrase_autocomplete_presented_ct')),
    phrasesSelected: sum(sent(rows, 'phrase_autocomplete_selected_ct')),
    withNumEdits: sent(rows, 'num_edits').length,
    withPhrasesPresented: sent(rows, 'phrase_autocomplete_presented_ct').length,
    withPhrasesSelected: sent(rows, 'phrase_autocomplete_selected_ct').length,
    withTimeToAction: sent(rows, 'time_to_action').length,
    withCraftingTime: sent(rows, 'crafting_time').length,
    withDwellTime: sent(rows, 'dwell_time').length,
    timeToActionUs: us('time_to_action'),
    craftingTimeUs: us('crafting_time'),
    dwellTimeUs: us('dwell_time'),
  };
}

interface Quantiles {
  readonly count: number;
  quantile(q: number): number | undefined;
}

/** Returns `ok`, or what differs from the exact quantiles by more than 2%. */
function compareTimes(histogram: Quantiles, times: readonly number[]): string {
  if (histogram.count !== times.length) return `${histogram.count} times instead of ${times.length}`;
  const sorted = times.map((seconds) => Math.min(seconds, 1e6)).sort((a, b) => a - b);
  const wrong = QUANTILES.flatMap((q) => {
    const exact = sorted[Math.floor(q * (sorted.length - 1))];
    const estimate = histogram.quantile(q);
    if (exact === undefined || Math.abs(estimate! - exact) <= ERROR_MAX * exact) return [];
    return [`p${q * 100} is ${estimate} instead of ${exact}`];
  });
  return wrong.join(', ') || 'ok';
}

type Quality = Readonly<Record<string, number>>;

/** Only the gateway knows what it refused. */
const COUNTED_BY_GATEWAYS = ['unknown-member', 'rejected', 'conflict'];

/**
 * Resolves with the quality of a tenant's records twice: as workers count it, and as its messages and
 * its dead letters have it in the same snapshot. Both are per day. With a topic that no other tenant
 * uses, also the number of duplicates, of which only the positions of the topic are left.
 */
export async function countQualityTwice(
  pool: Pool,
  tenantId: string,
  topic?: string,
): Promise<{ readonly counted: Quality; readonly recounted: Quality }> {
  const client = await pool.connect();
  try {
    await client.query('begin isolation level repeatable read');
    const range = { tenantId, firstDay: '2000-01-01', lastDay: '2100-01-01' };
    const counts = await readDataQuality(client, range);
    const { rows } = await client.query<{ key: string; records: number }>(
      `with messages as (select to_char(accepted_at at time zone 'UTC', 'YYYY-MM-DD') as day, gaps
                           from message_sent where tenant_id = $1),
            letters as (select to_char(accepted_at at time zone 'UTC', 'YYYY-MM-DD') as day, kind, reason
                          from dead_letters where tenant_id = $1)
       select day || ' gap message-sent  ' as key, count(*)::int as records
         from messages where cardinality(gaps) > 0 group by day
        union all
       select day || ' gap message-sent  ' || gap, count(*)::int from messages, unnest(gaps) as gap group by day, gap
        union all
       select day || ' dead-letter ' || kind || ' ' || reason || ' ', count(*)::int from letters group by day, kind, reason
        union all
       select 'duplicates', (select sum(next_offset) from log_positions where topic = $2)::int
                            - (select count(*) from messages)::int - (select count(*) from letters)::int
        where $2::text is not null`,
      [tenantId, topic ?? null],
    );
    await client.query('commit');
    const isDuplicate = ({ measure }: { measure: string }) => measure === 'duplicate';
    const others = counts.filter(
      (count) => !isDuplicate(count) && !COUNTED_BY_GATEWAYS.includes(count.measure),
    );
    const duplicates = counts.filter(isDuplicate).reduce((sum, { records }) => sum + records, 0);
    return {
      counted: {
        ...Object.fromEntries(
          others.map(({ day, measure, kind, code, name, records }) => [
            [day, measure, kind, code, name].join(' '),
            records,
          ]),
        ),
        ...(topic === undefined ? {} : { duplicates }),
      },
      recounted: Object.fromEntries(rows.map(({ key, records }) => [key, records])),
    };
  } finally {
    client.release();
  }
}
