import { expect, it } from 'vitest';
import { CASES } from '../../bench/cases/all.ts';
import table from '../../bench/ratios.json' with { type: 'json' };
import { missedRatios } from '../../bench/ratios-table.ts';

it('a ratio of the benchmarks that fell by more than a third is reported, a smaller loss is not', () => {
  const measured = { same: 0.6, lower: 0.41, fallen: 0.39, failed: 0, added: 0.1 };
  expect(missedRatios({ same: 0.6, lower: 0.6, fallen: 0.6, failed: 0.6, other: 1 }, measured)).toEqual([
    'fallen',
    'failed',
  ]);
});

it('the committed ratios of the benchmarks are those of existing cases', () => {
  expect(Object.keys(table).length).toBeGreaterThan(0);
  const names = CASES.map(({ name }) => name);
  expect(Object.keys(table).filter((name) => !names.includes(name))).toEqual([]);
});
