import { expect, it } from 'vitest';
import { toReport, toText } from '../../bench/report.ts';

const FACTS = { name: 'gateway-64', must: 0.5, goal: 0.6 };
const RESULT = {
  value: 6543.21,
  unit: 'requests/s',
  limit: 31_234.5,
  ratios: [0.25, 0.125, 0.2],
  p50Ms: 8.45,
  p99Ms: 21.04,
  cpuMs: 0.165432,
  rssMiB: 312.34,
  notes: ['workers off'],
};

it('the benchmark report shows a case as JSON with the median ratio and 4 significant digits', () => {
  expect(toReport(FACTS, RESULT)).toEqual({
    name: 'gateway-64',
    value: 6543,
    unit: 'requests/s',
    limit: 31_230,
    ratio: 0.2,
    must: 0.5,
    goal: 0.6,
    p50Ms: 8.45,
    p99Ms: 21.04,
    cpuMs: 0.1654,
    rssMiB: 312.3,
  });
});

it('the benchmark report contains null for values that a case does not measure', () => {
  const report = toReport(FACTS, { value: 1, unit: 'records/s', limit: 2, ratios: [0.5], notes: [] });
  expect(report).toMatchObject({ p50Ms: null, p99Ms: null, cpuMs: null, rssMiB: null });
  expect(Object.keys(report)).toEqual([
    'name',
    'value',
    'unit',
    'limit',
    'ratio',
    'must',
    'goal',
    'p50Ms',
    'p99Ms',
    'cpuMs',
    'rssMiB',
  ]);
});

it('the benchmark report prints the ratio with the spread of the rounds, and the notes', () => {
  expect(toText(FACTS, RESULT)).toContain('ratio 0.20 (0.13 to 0.25), must 0.5, goal 0.6');
  expect(toText(FACTS, RESULT)).toMatch(/\n {2}workers off$/);
});
