import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FAULTS } from '../faults/faults/index.ts';
import { TITLES } from '../faults/table.ts';
import { ROOT } from '../support/program.ts';

const page = readFileSync(join(ROOT, 'docs/reliability.md'), 'utf8');

describe('docs/reliability.md', () => {
  it.each(FAULTS)('describes $name with its logs', ({ name, logs }) => {
    const on = logs.length === 2 ? 'both' : logs[0] === 'kafka' ? 'Kafka' : 'embedded';
    expect(page).toContain(`- **${name}** (${on}): `);
  });

  describe.each(TITLES)('results on the log "%s"', (log, title) => {
    const rows = rowsBelow(title);

    it('have one row per fault', () => {
      const names = FAULTS.filter(({ logs }) => logs.includes(log)).map(({ name }) => name);
      expect(rows.map(({ fault }) => fault).sort()).toEqual(names.sort());
    });

    it.each(rows)(
      'show a run of $fault with enough records, none lost, duplicated or out of order',
      (row) => {
        expect(Number(row.times)).toBeGreaterThanOrEqual(3);
        expect(Number(row.accepted!.replaceAll(',', ''))).toBeGreaterThanOrEqual(20_000);
        expect([row.lost, row.duplicated, row['out of order']]).toEqual(['0', '0', '0']);
        expect(row['stall limit']).not.toBe('');
      },
    );
  });
});

describe.each([
  ['## Bounds on one tenant', 'multiplied', 20],
  ['## Faults of webhooks', 'fault elsewhere', 10],
])('%s', (title, column, rowsMin) => {
  const rows = rowsBelow(title);

  it('has rows', () => expect(rows.length).toBeGreaterThanOrEqual(rowsMin));

  it.each(rows.map((row) => [row[column]!, row.test!]))('names an existing test: %s', (_, test) => {
    const [, file, name] = /^`(.+?)`: (.+)$/.exec(test)!;
    expect(readFileSync(join(ROOT, file!), 'utf8')).toContain(name);
  });
});

/** Returns the rows of the first table after a title, by column name. */
function rowsBelow(title: string): Record<string, string>[] {
  const lines = page.slice(page.indexOf(`${title}\n`)).split('\n');
  const from = lines.findIndex((line) => line.startsWith('|'));
  const length = lines.slice(from).findIndex((line) => !line.startsWith('|'));
  const [head, , ...rows] = lines.slice(from, from + length).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  return rows.map((cells) => Object.fromEntries(cells.map((cell, index) => [head![index]!, cell])));
}
