import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FAULTS } from '../faults/faults/index.ts';
import { boundOf } from '../faults/run.ts';
import { TITLES } from '../faults/table.ts';
import { ROOT } from '../support/program.ts';

const page = readFileSync(join(ROOT, 'docs/reliability.md'), 'utf8');
const unwrapped = page.replaceAll(/\s+/g, ' ');

describe('the page on reliability', () => {
  it.each(FAULTS)('says what happens under $name', ({ name, logs, about }) => {
    const on = logs.length === 2 ? 'both' : logs[0] === 'kafka' ? 'Kafka' : 'embedded';
    expect(unwrapped).toContain(`- **${name}** (${on}): ${about}.`);
  });

  describe.each(TITLES)('of the log "%s"', (log, title) => {
    const rows = rowsBelow(title);

    it('has one row a fault', () => {
      const names = FAULTS.filter(({ logs }) => logs.includes(log)).map(({ name }) => name);
      expect(rows.map(({ fault }) => fault).sort()).toEqual(names.sort());
    });

    it.each(rows)('shows a run of $fault that is long enough and kept the promises', (row) => {
      expect(Number(row.times)).toBeGreaterThanOrEqual(3);
      expect(Number(row.accepted!.replaceAll(',', ''))).toBeGreaterThanOrEqual(20_000);
      expect([row.lost, row.doubled, row['out of order']]).toEqual(['0', '0', '0']);
      const fault = FAULTS.find(({ name }) => name === row.fault);
      expect(row['the stall is bounded by']).toBe(boundOf(fault!, log));
    });
  });
});

describe('the table of what one tenant can multiply', () => {
  const rows = rowsBelow('## What one tenant can multiply');

  it('has rows', () => expect(rows.length).toBeGreaterThan(10));

  it.each(rows)('names a test that exists: $multiplied', ({ test }) => {
    const [, file, title] = /^`(.+?)`: (.+)$/.exec(test!)!;
    expect(readFileSync(join(ROOT, file!), 'utf8')).toContain(title);
  });
});

/** Of the first table below a title, by the names of its columns. */
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
