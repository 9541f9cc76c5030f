import type { GroupName, Report } from '../../shared/reports/report.ts';
import type { TimeZone } from '../../shared/reports/time-zone.ts';
import { localTime } from './local-time.ts';

/** A column of a report's table. */
export interface ReportColumn<Values> {
  readonly head: string;
  /** Returns a number or the text of a cell; empty if there is no value. */
  cell(values: Values): number | string;
}

/** A table for people. */
export interface ReportTable {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Of each column. */
  readonly alignments: readonly ('left' | 'right')[];
}

/** Cells of the longest bar. */
const BAR_CELLS = 10;
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/**
 * Returns the table of a report: a row per interval, then one per group that has records in it. The
 * first of the columns is a number, and has bars.
 */
export function tableOf<Values>(
  { interval, groupBy, intervals }: Report<Values>,
  zone: TimeZone,
  [counted, ...others]: readonly ReportColumn<Values>[],
): ReportTable {
  const numberOf = (values: Values) => Number(counted!.cell(values));
  const rows = intervals.flatMap(({ from, all, groups = [] }) => [
    { from, group: ALL, values: all },
    ...groups
      .filter((values) => numberOf(values) > 0)
      .map(({ group, ...values }) => ({ from, group: groupCell(group), values: values as Values })),
  ]);
  const largest = Math.max(...rows.map(({ values }) => numberOf(values)));
  const names = [...(interval === 'total' ? [] : [interval]), ...(groupBy === undefined ? [] : [groupBy])];
  return {
    alignments: [...names.map(() => 'left' as const), 'right', 'left', ...others.map(() => 'right' as const)],
    head: [...names, counted!.head, '', ...others.map(({ head }) => head)],
    rows: rows.map(({ from, group, values }) => [
      ...(interval === 'total' ? [] : [startOf(zone, from, interval)]),
      ...(groupBy === undefined ? [] : [group]),
      separated(numberOf(values)),
      bar(numberOf(values), largest),
      ...others.map((column) => {
        const cell = column.cell(values);
        return typeof cell === 'number' ? separated(cell) : cell;
      }),
    ]),
  };
}

/** The group of all records, and that of records whose value is not known. */
const ALL = '(all)';
const UNKNOWN = '(unknown)';

function groupCell(group: GroupName): string {
  return group === null ? UNKNOWN : nameCell(group);
}

/** Returns a name from outside. One that could be read as a word of the table, such as `(all)`, is quoted. */
export function nameCell(name: string): string {
  return /^["(]/.test(name) ? JSON.stringify(name) : name;
}

/** Returns a number with separators of thousands. */
export function separated(value: number): string {
  return value.toLocaleString('en-US');
}

function bar(value: number, largest: number): string {
  const eighths = largest === 0 ? 0 : Math.ceil((value / largest) * BAR_CELLS * EIGHTHS.length);
  return '█'.repeat(Math.floor(eighths / EIGHTHS.length)) + EIGHTHS[eighths % EIGHTHS.length];
}

/** Returns the local date, for hours with the time and the offset, which differs if it is repeated. */
function startOf(zone: TimeZone, from: string, interval: string): string {
  const { date, time, offset } = localTime(zone, from);
  return interval === 'day' ? date : `${date} ${time} ${offset}`;
}
