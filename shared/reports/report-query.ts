import type { ErrorDetail } from '../contracts/errors.ts';
import { parseTimestampNs } from '../contracts/timestamps.ts';
import { QUARTER_HOUR_MS } from '../message-sent/counts.ts';
import { localStarts, startOfDate, type TimeZone, timeZoneOf } from './time-zone.ts';

export const INTERVALS = ['total', 'day', 'hour'] as const;

export type Interval = (typeof INTERVALS)[number];

/** The parameters of a report, as texts. */
export const REPORT_PARAMETERS = ['from', 'to', 'groupBy', 'interval', 'timezone'] as const;

export type ReportTexts = Readonly<Partial<Record<(typeof REPORT_PARAMETERS)[number], string | undefined>>>;

/** What a report counts. */
export interface ReportQuery<GroupBy extends string> {
  /** Undefined: no groups. */
  readonly groupBy: GroupBy | undefined;
  readonly interval: Interval;
  readonly zone: TimeZone;
  /** Where the intervals begin, then the end of the last one, in milliseconds at quarter-hours. */
  readonly bounds: readonly number[];
}

/** Longest range of a report, in days. */
const DAYS_MAX: Readonly<Record<Interval, number>> = { total: 366, day: 366, hour: 31 };
/** Groups of a report, at most. */
export const GROUPS_MAX = 1000;
/** Rows of a report, at most: groups multiplied by intervals. */
export const ROWS_MAX = 10_000;

const DAY_MS = 86_400_000;
/** By how much a range may exceed its days: clocks that are set back make days longer. */
const CLOCK_CHANGE_MS = 7_200_000;

/** Reads the parameters of a report. Each detail names a parameter and says what it must be. */
export function readReportQuery<GroupBy extends string>(
  texts: ReportTexts,
  groups: readonly GroupBy[],
):
  | { readonly ok: true; readonly query: ReportQuery<GroupBy> }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] } {
  const details: ErrorDetail[] = [];
  const { groupBy, interval = 'total', timezone = 'UTC' } = texts;
  if (groupBy !== undefined && !isOneOf(groups, groupBy)) {
    details.push({ path: 'groupBy', message: `must be one of ${groups.join(', ')}, or omitted` });
  }
  if (!isOneOf(INTERVALS, interval)) {
    details.push({ path: 'interval', message: `must be one of ${INTERVALS.join(', ')}` });
  }
  const zone = timeZoneOf(timezone);
  if (!zone) {
    details.push({ path: 'timezone', message: 'must be an IANA time zone such as Europe/Berlin' });
    return { ok: false, details };
  }
  const [fromMs, toMs] = (['from', 'to'] as const).map((path) => {
    const time = readTime(texts[path], zone);
    if (typeof time === 'number') return time;
    details.push({ path, message: time });
    return 0;
  }) as [number, number];
  if (details.length > 0) return { ok: false, details };
  const query = {
    groupBy: groupBy as GroupBy | undefined,
    interval: interval as Interval,
    zone,
    fromMs,
    toMs,
  };
  const problem = rangeProblem(query);
  if (problem) return { ok: false, details: [problem] };
  const bounds = [fromMs, ...startsOf(query), toMs];
  if (bounds.some((bound) => bound % QUARTER_HOUR_MS !== 0)) {
    return { ok: false, details: [{ path: 'timezone', message: UNALIGNED }] };
  }
  return { ok: true, query: { groupBy: query.groupBy, interval: query.interval, zone, bounds } };
}

const UNALIGNED =
  'has days in this range that do not begin at a quarter-hour of UTC: use UTC, or a later range';

function isOneOf<T extends string>(values: readonly T[], text: string): text is T {
  return (values as readonly string[]).includes(text);
}

const TIME_TEXT =
  'must be a time with offset at a quarter-hour such as 2026-01-31T00:15:00Z, or a date such as 2026-01-31';

/** Returns the time, or what it must be. A date is its first moment in the time zone. */
function readTime(text: string | undefined, zone: TimeZone): number | string {
  if (text === undefined) return `is required: it ${TIME_TEXT}`;
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(text);
  const ns = parseTimestampNs(isDate ? `${text}T00:00:00Z` : text);
  if (ns === undefined || ns % QUARTER_HOUR_NS !== 0n) return TIME_TEXT;
  return isDate ? startOfDate(zone, text) : Number(ns / 1_000_000n);
}

const QUARTER_HOUR_NS = BigInt(QUARTER_HOUR_MS) * 1_000_000n;

interface Range {
  readonly interval: Interval;
  readonly zone: TimeZone;
  readonly fromMs: number;
  readonly toMs: number;
}

function rangeProblem({ interval, fromMs, toMs }: Range): ErrorDetail | undefined {
  if (toMs <= fromMs) return { path: 'to', message: 'must be after from' };
  const daysMax = DAYS_MAX[interval];
  if (toMs - fromMs <= daysMax * DAY_MS + CLOCK_CHANGE_MS) return undefined;
  const instead =
    interval === 'hour' ? 'choose the interval day, or shorter ranges' : 'choose shorter ranges';
  return {
    path: 'to',
    message: `must be at most ${daysMax} days after from with the interval ${interval}: ${instead}`,
  };
}

function startsOf({ interval, zone, fromMs, toMs }: Range): number[] {
  return interval === 'total' ? [] : localStarts(zone, { fromMs, toMs }, interval);
}

/** Returns how many groups a report with these bounds of intervals may have; see {@link groupsProblem}. */
export function groupsMaxOf(bounds: readonly number[]): number {
  return Math.min(GROUPS_MAX, Math.floor(ROWS_MAX / (bounds.length - 1)));
}

/** Returns why a report with so many groups is refused; undefined if it is not. */
export function groupsProblem(
  groups: number,
  { groupBy, bounds }: ReportQuery<string>,
): ErrorDetail | undefined {
  const intervals = bounds.length - 1;
  if (groups > GROUPS_MAX) {
    return {
      path: 'groupBy',
      message: `the range has more than ${GROUPS_MAX} groups of ${groupBy}: choose a shorter range or another groupBy`,
    };
  }
  if (Math.max(groups, 1) * intervals <= ROWS_MAX) return undefined;
  return {
    path: 'interval',
    message: `${groups} groups in ${intervals} intervals are more than ${ROWS_MAX} rows: choose a longer interval or a shorter range`,
  };
}
