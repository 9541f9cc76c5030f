import type { ErrorDetail } from '../contracts/errors.ts';
import type { UnstoredRecords } from '../postgres/unstored-records.ts';
import type { ReportQuery } from './report-query.ts';

/** The name of a group. Null: the value by which records are grouped is not known. */
export type GroupName = string | null;

/** A report as the admin API and commands show it. Times are RFC 3339 in UTC. */
export interface Report<Values> {
  readonly from: string;
  readonly to: string;
  readonly interval: string;
  readonly timezone: string;
  readonly groupBy?: string;
  /** What the time of a record is. */
  readonly timeOf: string;
  /** In order, also those without records. */
  readonly intervals: readonly ReportInterval<Values>[];
}

export interface ReportInterval<Values> {
  readonly from: string;
  readonly to: string;
  readonly deadLetters: number;
  readonly conflicts: number;
  /** The values of all records. */
  readonly all: Values;
  /** The same groups in each interval. Undefined: the report has no groups. */
  readonly groups?: readonly (Values & { readonly group: GroupName })[];
}

/** A report, or why it is refused. */
export type ReportResult<Values> =
  | { readonly ok: true; readonly report: Report<Values> }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] };

/** The values of one group in one interval. */
export interface GroupValues<Values> {
  /** Undefined: all records. */
  readonly group: GroupName | undefined;
  readonly intervalIndex: number;
  readonly values: Values;
}

/** Returns a report with values for each interval and group; `none` where there are no records. */
export function buildReport<Values>(
  { groupBy, interval, zone, bounds }: ReportQuery<string>,
  timeOf: string,
  {
    groups,
    found,
    unstored,
    none,
  }: {
    /** In the order of the report. */
    readonly groups: readonly GroupName[];
    readonly found: readonly GroupValues<Values>[];
    readonly unstored: readonly UnstoredRecords[];
    readonly none: Values;
  },
): Report<Values> {
  const values = new Map(found.map((one) => [keyOf(one), one.values]));
  const unstoredOf = new Map(unstored.map((one) => [one.intervalIndex, one]));
  const valuesOf = (i: number, group?: GroupName) => values.get(keyOf({ intervalIndex: i, group })) ?? none;
  return {
    from: timeText(bounds[0]!),
    to: timeText(bounds.at(-1)!),
    interval,
    timezone: zone.name,
    ...(groupBy !== undefined && { groupBy }),
    timeOf,
    intervals: bounds.slice(1).map((end, i) => ({
      from: timeText(bounds[i]!),
      to: timeText(end),
      deadLetters: unstoredOf.get(i)?.deadLetters ?? 0,
      conflicts: unstoredOf.get(i)?.conflicts ?? 0,
      all: valuesOf(i),
      ...(groupBy !== undefined && { groups: groups.map((group) => ({ group, ...valuesOf(i, group) })) }),
    })),
  };
}

function keyOf({ intervalIndex, group }: Pick<GroupValues<unknown>, 'intervalIndex' | 'group'>): string {
  return group === undefined ? `${intervalIndex}` : `${intervalIndex} ${JSON.stringify(group)}`;
}

/** Returns the time without milliseconds, because it is at a quarter-hour. */
function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString().replace('.000Z', 'Z');
}

/** Returns groups with the most records first; of equal ones, the one without a name first. */
export function largestFirst(sizes: ReadonlyMap<GroupName, number>): GroupName[] {
  return [...sizes]
    .sort(([a, n], [b, m]) => m - n || (a === null || (b !== null && a < b) ? -1 : 1))
    .map(([group]) => group);
}

/** Returns a quotient; null if there is nothing to divide by. */
export function ratio(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}
