import type { Report } from '../../shared/reports/report.ts';

/**
 * Returns a report as CSV, without a line feed at its end: a row per interval for all records, whose
 * group is empty, and one per group. Values that are null are empty.
 */
export function csvOf<Values extends object>({ intervals }: Report<Values>): string {
  const rows = intervals.flatMap(({ from, to, deadLetters, conflicts, all, groups = [] }) => [
    new Map<string, unknown>([
      ['from', from],
      ['to', to],
      ['group', ''],
      ...flatten(all),
      ['deadLetters', deadLetters],
      ['conflicts', conflicts],
    ]),
    ...groups.map(
      ({ group, ...values }) =>
        new Map<string, unknown>([['from', from], ['to', to], ['group', group], ...flatten(values)]),
    ),
  ]);
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
