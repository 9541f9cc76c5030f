import Table from 'cli-table3';
import type { LogName } from './laboratory.ts';
import type { Row } from './run.ts';

const HEAD = [
  'fault',
  'log',
  'times',
  'requests',
  'accepted',
  'conflicts',
  'failed',
  'lost',
  'duplicated',
  'out of order',
  'dead-lettered',
  'longest stall',
  'stored within',
];

const LOG_COLUMN = HEAD.indexOf('log');
/** Titles of the Markdown tables. */
export const TITLES: readonly (readonly [LogName, string])[] = [
  ['kafka', '### On Kafka'],
  ['embedded', '### Embedded'],
];

/** Formats the rows as a table for a terminal. */
export function tableOf(rows: readonly Row[]): string {
  const table = new Table({ head: HEAD, style: { head: [], border: [] } });
  for (const row of rows) table.push(cellsOf(row));
  return table.toString();
}

/** Formats the rows as Markdown tables, one per log, with the limit of each stall. */
export function markdownOf(rows: readonly Row[]): string {
  const sections = TITLES.map(([log, title]) => {
    const lines = [[...HEAD, 'stall limit'], [...HEAD, ''].map(() => '---')];
    for (const row of rows.filter((one) => one.log === log)) lines.push([...cellsOf(row), row.stallLimit]);
    const table = lines.map((cells) => `| ${cells.toSpliced(LOG_COLUMN, 1).join(' | ')} |`);
    return [title, '', ...table].join('\n');
  });
  return sections.join('\n\n');
}

function cellsOf(row: Row): string[] {
  return [
    row.fault,
    row.log,
    ...[row.injected, row.requests, row.accepted, row.conflicts, row.failed].map((count) =>
      count.toLocaleString('en'),
    ),
    ...[row.lost, row.duplicated, row.outOfOrder, row.deadLettered].map(String),
    `${(row.longestStallMs / 1000).toFixed(1)} s`,
    row.storedAfterSecondsMax === undefined ? '–' : `${row.storedAfterSecondsMax.toFixed(1)} s`,
  ];
}
