import type { Report } from '../../shared/reports/report.ts';
import type { TimeZone } from '../../shared/reports/time-zone.ts';
import { withOffset } from './local-time.ts';

/**
 * Returns a report as CSV, without a line feed at its end: a row per interval for all records, and one
 * per group. The column `rowOf` says which: `all`, `group`, or `unknown` for the group of records whose
 * value is not known. Values that are null are empty. Times have the zone's offset.
 */
export function csvOf<Values extends object>({ intervals }: Report<Values>, zone: TimeZone): string {
  const rows = intervals.flatMap(({ from, to, deadLetters, conflicts, all, groups = [] }) => {
    const range: readonly [string, string][] = [
      ['from', withOffset(zone, from)],
      ['to', withOffset(zone, to)],
    ];
    return [
      new Map<string, unknown>([
        ...range,
        ['rowOf', 'all'],
        ['group', ''],
        ...flatten(all),
        ['deadLetters', deadLetters],
        ['conflicts', conflicts],
      ]),
      ...groups.map(
        ({ group, ...values }) =>
          new Map<string, unknown>([
            ...range,
            ['rowOf', group === null ? 'unknown' : 'group'],
            ['group', group],
            ...flatten(values),
          ]),
      ),
    ];
  });
  const names = [...(rows[0]?.keys() ?? [])];
  return [names, ...rows.map((row) => names.map((name) => row.get(name)))].map(lineOf).join('\n');
}

/** Returns the values by their paths, such as `dwellTime.p95`. */
function flatten(values: object, prefix = ''): [string, unknown][] {
  return Object.entries(values).flatMap(([name, value]): [string, unknown][] =>
    typeof value === 'object' && value !== null
      ? flatten(value, `${prefix}${name}.`)
      : [[`${prefix}${name}`, value]],
  );
}

/** Returns a line of CSV. */
export function lineOf(cells: readonly unknown[]): string {
  return cells
    .map((cell) => String(cell ?? ''))
    .map((text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text))
    .join(',');
}
