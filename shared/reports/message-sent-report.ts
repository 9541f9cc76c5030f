import { COUNT_NAMES, type Counts, countsOf, type MessageCounts } from '../message-sent/counts.ts';
import { TIMES, type TimeName } from '../message-sent/delta.ts';
import type { Histogram } from '../message-sent/histogram.ts';
import {
  DIMENSIONS,
  type Dimension,
  type GroupRange,
  readGroupCounts,
} from '../postgres/message-dimensions.ts';
import { type CountRange, readTypeCounts } from '../postgres/message-sent-counts.ts';
import { inTransaction, type Pool, type Queryable } from '../postgres/pool.ts';
import { readUnstoredRecords } from '../postgres/unstored-records.ts';
import {
  buildReport,
  type GroupName,
  type GroupValues,
  largestFirst,
  type ReportResult,
  ratio,
} from './report.ts';
import { groupsMaxOf, groupsProblem, type ReportQuery } from './report-query.ts';

/** The values by which messages are grouped. */
export const MESSAGE_GROUPS: readonly MessageGroupBy[] = [
  'augmentationType',
  ...(Object.keys(DIMENSIONS) as Dimension[]),
];

export type MessageGroupBy = 'augmentationType' | Dimension;

/** The counts of messages that a report shows as they are: all that rates and means of numbers consist of. */
export const REPORTED_COUNTS = COUNT_NAMES.slice(0, COUNT_NAMES.indexOf('withTimeToAction')) as (
  | 'messages'
  | 'uses'
  | 'edits'
  | 'sentUnedited'
  | 'suggestionsShown'
  | 'suggestionsUsed'
  | 'selectedFirst'
  | 'selectedSecond'
  | 'selectedThird'
  | 'selectedLater'
  | 'phrasesPresented'
  | 'phrasesSelected'
  | 'withNumEdits'
  | 'withPhrasesPresented'
  | 'withPhrasesSelected'
)[];

/** A time of messages, in seconds. Numbers are null without messages that have it. */
export interface TimeValues {
  /** Messages in which it was sent. */
  readonly messages: number;
  readonly mean: number | null;
  /** Quantiles with an error of at most 2%. Undefined: the group has no histograms. */
  readonly p50?: number | null;
  readonly p95?: number | null;
  readonly p99?: number | null;
}

/** The values of a group of messages. A quotient is null if there is nothing to divide by. */
export interface MessageValues extends Pick<MessageCounts, (typeof REPORTED_COUNTS)[number]> {
  readonly rates: {
    /** suggestionsUsed / suggestionsShown. */
    readonly suggestionsUsed: number | null;
    /** sentUnedited / withNumEdits, which has messages without a used suggestion too. */
    readonly sentUnedited: number | null;
    /** selectedFirst / messages with an index, which are the sum of the four counts of indexes. */
    readonly selectedFirst: number | null;
    /** phrasesSelected / phrasesPresented, each the sum over the messages in which it was sent. */
    readonly phrasesSelected: number | null;
  };
  /** Means of the messages in which the number was sent. */
  readonly means: {
    readonly edits: number | null;
    readonly phrasesPresented: number | null;
    readonly phrasesSelected: number | null;
  };
  readonly timeToAction: TimeValues;
  readonly craftingTime: TimeValues;
  readonly dwellTime: TimeValues;
}

const TIME_OF = 'occurredAt of the message, or the time at which it was accepted if it has none';

/** Resolves with the report on a tenant's MessageSent events. */
export async function reportMessageSent(
  pool: Pool,
  tenantId: string,
  query: ReportQuery<MessageGroupBy>,
): Promise<ReportResult<MessageValues>> {
  const range = { tenantId, bounds: query.bounds };
  const { groupBy } = query;
  const read =
    groupBy === undefined || groupBy === 'augmentationType'
      ? await readTypes(pool, { ...range, byType: groupBy !== undefined })
      : await readDimension(pool, { ...range, groupsMax: groupsMaxOf(query.bounds) }, groupBy);
  if (read === 'too-large') return { ok: false, details: [TOO_MANY_CONVERSATIONS] };
  const { found, sizes } = read;
  const problem = groupsProblem(sizes.size, query);
  if (problem) return { ok: false, details: [problem] };
  const unstored = await readUnstoredRecords(pool, 'message-sent', range);
  const none = describeMessages(
    [],
    groupBy === undefined || groupBy === 'augmentationType' ? NO_HISTOGRAMS : undefined,
  );
  return {
    ok: true,
    report: buildReport(query, TIME_OF, { groups: largestFirst(sizes), found, unstored, none }),
  };
}

const NO_HISTOGRAMS = () => undefined;

const TOO_MANY_CONVERSATIONS = {
  path: 'to',
  message:
    'the range has more conversations than a report by their metadata adds up: choose a shorter range, or no groupBy',
};

interface Found {
  readonly found: readonly GroupValues<MessageValues>[];
  /** Messages of each group. */
  readonly sizes: ReadonlyMap<GroupName, number>;
}

async function readTypes(db: Queryable, range: CountRange): Promise<Found> {
  const counted = await readTypeCounts(db, range);
  const groups = counted.map(({ augmentationType, ...counts }) => ({ ...counts, group: augmentationType }));
  return {
    sizes: sizesOf(groups),
    found: groups.map(({ intervalIndex, group, counts, histogramOf }) => ({
      intervalIndex,
      group,
      values: describeMessages(counts, histogramOf),
    })),
  };
}

interface CountedGroup {
  readonly intervalIndex: number;
  readonly group: GroupName | undefined;
  readonly counts: Counts;
}

/** Reads the groups and all messages in one snapshot, so that they agree. */
async function readDimension(
  pool: Pool,
  range: GroupRange,
  dimension: Dimension,
): Promise<Found | 'too-large'> {
  const groups = await inTransaction(
    pool,
    async (db): Promise<CountedGroup[] | 'too-large'> => {
      const found = await readGroupCounts(db, range, dimension);
      if (found === 'too-large') return found;
      const all = await readTypeCounts(db, range);
      return [
        ...found,
        ...all.map(({ intervalIndex, counts }) => ({ intervalIndex, counts, group: undefined })),
      ];
    },
    { snapshot: true, largeSorts: true },
  );
  if (groups === 'too-large') return groups;
  return {
    sizes: sizesOf(groups),
    found: groups.map(({ counts, ...group }) => ({ ...group, values: describeMessages(counts, undefined) })),
  };
}

function sizesOf(groups: readonly Pick<CountedGroup, 'group' | 'counts'>[]): Map<GroupName, number> {
  const sizes = new Map<GroupName, number>();
  for (const { group, counts } of groups) {
    if (group !== undefined) sizes.set(group, (sizes.get(group) ?? 0) + counts[0]!);
  }
  return sizes;
}

/** Returns the values of a group. `histogramOf`: undefined if groups have no histograms. */
function describeMessages(
  values: Counts,
  histogramOf: ((time: TimeName) => Histogram | undefined) | undefined,
): MessageValues {
  const counts = countsOf(values);
  const { selectedFirst, selectedSecond, selectedThird, selectedLater } = counts;
  const selected = selectedFirst + selectedSecond + selectedThird + selectedLater;
  const times = TIMES.map((time) => [
    time,
    describeTime(counts, time, histogramOf && { of: histogramOf(time) }),
  ]);
  return {
    ...(Object.fromEntries(REPORTED_COUNTS.map((name) => [name, counts[name]])) as Pick<
      MessageCounts,
      (typeof REPORTED_COUNTS)[number]
    >),
    rates: {
      suggestionsUsed: ratio(counts.suggestionsUsed, counts.suggestionsShown),
      sentUnedited: ratio(counts.sentUnedited, counts.withNumEdits),
      selectedFirst: ratio(selectedFirst, selected),
      phrasesSelected: ratio(counts.phrasesSelected, counts.phrasesPresented),
    },
    means: {
      edits: ratio(counts.edits, counts.withNumEdits),
      phrasesPresented: ratio(counts.phrasesPresented, counts.withPhrasesPresented),
      phrasesSelected: ratio(counts.phrasesSelected, counts.withPhrasesSelected),
    },
    ...(Object.fromEntries(times) as Record<TimeName, TimeValues>),
  };
}

/** The counts of a time: how many messages have it, and the sum in microseconds. */
const TIME_COUNTS = {
  timeToAction: ['withTimeToAction', 'timeToActionUs'],
  craftingTime: ['withCraftingTime', 'craftingTimeUs'],
  dwellTime: ['withDwellTime', 'dwellTimeUs'],
} as const satisfies Record<TimeName, readonly (keyof MessageCounts)[]>;

function describeTime(
  counts: MessageCounts,
  time: TimeName,
  histogram: { readonly of: Histogram | undefined } | undefined,
): TimeValues {
  const [withTime, sumUs] = TIME_COUNTS[time];
  const mean = ratio(counts[sumUs], counts[withTime]);
  return {
    messages: counts[withTime],
    mean: mean === null ? null : mean / 1e6,
    ...(histogram && {
      p50: quantile(histogram.of, 0.5),
      p95: quantile(histogram.of, 0.95),
      p99: quantile(histogram.of, 0.99),
    }),
  };
}

const MICROSECOND_DIGITS = 6;

function quantile(histogram: Histogram | undefined, q: number): number | null {
  const seconds = histogram?.quantile(q);
  return seconds === undefined ? null : Number(seconds.toFixed(MICROSECOND_DIGITS));
}
