import type { Report } from '../../shared/reports/report.ts';
import type { TimeZone } from '../../shared/reports/time-zone.ts';

/** A column of a report's table. */
export interface ReportColumn<Values> {
  readonly head: string;
  /** Returns the text of a cell; empty if there is no value. */
  cell(values: Values): string;
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
): { readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] } {
  const numberOf = (values: Values) => Number(counted!.cell(values));
  const rows = intervals.flatMap(({ from, all, groups = [] }) => [
    { from, group: groupBy === undefined ? '' : 'all', values: all },
    ...groups
      .filter((values) => numberOf(values) > 0)
      .map(({ group, ...values }) => ({ from, group, values: values as Values })),
  ]);
  const largest = Math.max(...rows.map(({ values }) => numberOf(values)));
  return {
    head: [
      ...(interval === 'total' ? [] : [interval]),
      ...(groupBy === undefined ? [] : [groupBy]),
      counted!.head,
      '',
      ...others.map(({ head }) => head),
    ],
    rows: rows.map(({ from, group, values }) => [
      ...(interval === 'total' ? [] : [localTime(zone, from, interval)]),
      ...(groupBy === undefined ? [] : [group]),
      counted!.cell(values),
      bar(numberOf(values), largest),
      ...others.map((column) => column.cell(values)),
    ]),
  };
}

function bar(value: number, largest: number): string {
  const eighths = largest === 0 ? 0 : Math.ceil((value / largest) * BAR_CELLS * EIGHTHS.length);
  return '█'.repeat(Math.floor(eighths / EIGHTHS.length)) + EIGHTHS[eighths % EIGHTHS.length];
}

/** Returns the local date, for hours with the time and the offset, which differs if it is repeated. */
function localTime(zone: TimeZone, from: string, interval: string): string {
  const timeMs = Date.parse(from);
  const offsetMs = zone.offsetMs(timeMs);
  const text = new Date(timeMs + offsetMs).toISOString();
  if (interval === 'day') return text.slice(0, '2026-01-31'.length);
  const [hours, minutes] = new Date(Math.abs(offsetMs)).toISOString().slice(11, 16).split(':');
  return `${text.slice(0, 16).replace('T', ' ')} ${offsetMs < 0 ? '-' : '+'}${hours}:${minutes}`;
}
