import {
  AUTOMATION_COUNTS,
  type AutomationCounts,
  type MeasuredTime,
  readAutomationCounts,
} from '../postgres/automation-counts.ts';
import { DIMENSIONS, type Dimension } from '../postgres/message-dimensions.ts';
import { inTransaction, type Pool } from '../postgres/pool.ts';
import { readUnstoredRecords } from '../postgres/unstored-records.ts';
import { buildReport, type GroupName, largestFirst, type ReportResult } from './report.ts';
import { groupsProblem, type ReportQuery, ROWS_MAX } from './report-query.ts';

/** The metadata of conversations by which automation events are grouped. */
export const AUTOMATION_GROUPS = Object.keys(DIMENSIONS) as readonly Dimension[];

/** A time in seconds from the start of processing. Numbers are null if there is none. */
export interface AutomationTime {
  /** Events whose start is known, and occurred at most a day before them. */
  readonly events: number;
  readonly mean: number | null;
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

type CountName = keyof typeof AUTOMATION_COUNTS;

/** The values of a group of automation events. */
export interface AutomationValues extends Readonly<Record<CountName, number>> {
  /** Conversations with events in the interval. */
  readonly conversations: number;
  /** From processingStart to each reply. */
  readonly timeToReply: AutomationTime;
  /** From processingStart to processingEnd. */
  readonly timeToEnd: AutomationTime;
}

/** Resolves with the report on a tenant's automation events. */
export async function reportAutomation(
  pool: Pool,
  tenantId: string,
  query: ReportQuery<Dimension>,
): Promise<ReportResult<AutomationValues>> {
  const range = { tenantId, bounds: query.bounds };
  const counted = await inTransaction(
    pool,
    (db) => readAutomationCounts(db, range, query.groupBy, ROWS_MAX + 1),
    { largeSorts: true },
  );
  const sizes = new Map<GroupName, number>();
  for (const { isAll, group, conversations } of counted) {
    if (!isAll) sizes.set(group, (sizes.get(group) ?? 0) + conversations);
  }
  const problem = groupsProblem(sizes.size, query);
  if (problem) return { ok: false, details: [problem] };
  const unstored = await readUnstoredRecords(pool, 'automation-events', range);
  const found = counted.map((counts) => ({
    intervalIndex: counts.intervalIndex,
    group: counts.isAll ? undefined : counts.group,
    values: describeEvents(counts),
  }));
  const groups = largestFirst(sizes);
  return {
    ok: true,
    report: buildReport(query, 'occurredAt of the event', {
      groups,
      found,
      unstored,
      none: describeEvents(undefined),
    }),
  };
}

function describeEvents(counts: AutomationCounts | undefined): AutomationValues {
  const names = Object.keys(AUTOMATION_COUNTS) as CountName[];
  return {
    conversations: counts?.conversations ?? 0,
    ...(Object.fromEntries(names.map((name) => [name, counts?.[name] ?? 0])) as Record<CountName, number>),
    timeToReply: describeTime(counts?.toReply),
    timeToEnd: describeTime(counts?.toEnd),
  };
}

function describeTime({ count, mean, quantiles }: MeasuredTime = NO_TIME): AutomationTime {
  const [p50 = null, p95 = null, p99 = null] = quantiles ?? [];
  return { events: count, mean, p50, p95, p99 };
}

const NO_TIME: MeasuredTime = { count: 0, mean: null, quantiles: null };
