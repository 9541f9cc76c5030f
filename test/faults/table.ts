import Table from 'cli-table3';
import type { Row } from './run.ts';

const HEAD = [
  'fault',
  'log',
  'times',
  'requests',
  'accepted',
  'refused',
  'lost',
  'doubled',
  'out of order',
  'set aside',
  'longest stall',
  'stored within',
];

/** The rows as a table for a terminal. */
export function tableOf(rows: readonly Row[]): string {
  const table = new Table({ head: HEAD, style: { head: [], border: [] } });
  for (const row of rows) table.push(cellsOf(row));
  return table.toString();
}

/** The rows as a table of Markdown, with what bounds each stall. */
export function markdownOf(rows: readonly Row[]): string {
  const lines = [[...HEAD, 'the stall is bounded by'], [...HEAD, ''].map(() => '---')];
  for (const row of rows) lines.push([...cellsOf(row), row.bound]);
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function cellsOf(row: Row): string[] {
  return [
    row.fault,
    row.log,
    ...[row.injected, row.requests, row.accepted, row.refused].map((count) => count.toLocaleString('en')),
    ...[row.lost, row.doubled, row.outOfOrder, row.setAside].map(String),
    `${(row.longestStallMs / 1000).toFixed(1)} s`,
    row.storedAfterSecondsMax === undefined ? '–' : `${row.storedAfterSecondsMax.toFixed(1)} s`,
  ];
}
