import { describe, expect, it } from 'vitest';
import { AUTOMATION_COLUMNS, MESSAGE_COLUMNS } from '../../../cli/reports/columns.ts';
import { csvOf } from '../../../cli/reports/csv.ts';
import { tableOf } from '../../../cli/reports/table.ts';
import type { AutomationValues } from '../../../shared/reports/automation-report.ts';
import type { MessageValues } from '../../../shared/reports/message-sent-report.ts';
import type { GroupName, Report } from '../../../shared/reports/report.ts';
import { timeZoneOf } from '../../../shared/reports/time-zone.ts';

const UTC = timeZoneOf('UTC')!;

interface Counted {
  readonly messages: number;
}

function reportOf(groups: readonly (readonly [GroupName, number])[], interval = 'total'): Report<Counted> {
  const [from, to] = ['2026-11-24T18:15:00Z', '2026-11-25T18:15:00Z'];
  const all = { messages: 20_000 };
  const found = groups.map(([group, messages]) => ({ group, messages }));
  return {
    ...{ from, to, interval, timezone: 'UTC', groupBy: 'campaign', timeOf: '' },
    intervals: [{ from, to, deadLetters: 1, conflicts: 0, all, groups: found }],
  };
}

describe('the total and the group of unknown values', () => {
  const report = reportOf([
    [null, 7],
    ['all', 6],
    ['unknown', 5],
    ['(all)', 4],
  ]);

  it('are no names that a group can have in a table', () => {
    const { rows } = tableOf(report, UTC, [{ head: 'messages', cell: ({ messages }) => messages }]);
    expect(rows.map(([group]) => group)).toEqual(['(all)', '(unknown)', 'all', 'unknown', '"(all)"']);
  });

  it('differ from groups with these names in a column of CSV', () => {
    expect(csvOf(report, UTC).split('\n')).toEqual([
      'from,to,rowOf,group,messages,deadLetters,conflicts',
      '2026-11-24T18:15:00Z,2026-11-25T18:15:00Z,all,,20000,1,0',
      '2026-11-24T18:15:00Z,2026-11-25T18:15:00Z,unknown,,7,,',
      '2026-11-24T18:15:00Z,2026-11-25T18:15:00Z,group,all,6,,',
      '2026-11-24T18:15:00Z,2026-11-25T18:15:00Z,group,unknown,5,,',
      '2026-11-24T18:15:00Z,2026-11-25T18:15:00Z,group,(all),4,,',
    ]);
  });
});

it('times of CSV have the offset of the zone', () => {
  const [, row] = csvOf(reportOf([], 'day'), timeZoneOf('Asia/Kathmandu')!).split('\n');
  expect(row).toMatch(/^2026-11-25T00:00:00\+05:45,2026-11-26T00:00:00\+05:45,all,/);
});

it('numbers of a table have separators and are aligned to the right', () => {
  const { rows, alignments } = tableOf(reportOf([]), UTC, [
    { head: 'messages', cell: ({ messages }) => messages },
    { head: 'uses', cell: () => 1_234_567 },
  ]);
  expect(rows).toEqual([['(all)', '20,000', '██████████', '1,234,567']]);
  expect(alignments).toEqual(['left', 'right', 'left', 'right']);
});

it('times of a table name their quantiles', () => {
  const column = MESSAGE_COLUMNS.find(({ head }) => head === 'crafting')!;
  const cell = (craftingTime: object) => column.cell({ craftingTime } as unknown as MessageValues);
  expect(cell({ mean: 14, p50: 11.5, p95: 46.1 })).toBe('p50 11.5, p95 46.1 s');
  expect(cell({ mean: 14 })).toBe('mean 14 s');
});

it('the table of automation events has the number of ends', () => {
  const column = AUTOMATION_COLUMNS.find(({ head }) => head === 'ends')!;
  expect(column.cell({ processingEnds: 3 } as unknown as AutomationValues)).toBe(3);
});
