import { expect, it } from 'vitest';
import { ArgumentError } from '../../bench/arguments.ts';
import { LOADS, parseCostArguments, VARIANTS } from '../../bench/costs/arguments.ts';
import {
  type Cost,
  costOf,
  describeCost,
  type Figures,
  isTooHigh,
  type Round,
  typicalOf,
} from '../../bench/costs/compare.ts';

it('the bench of costs measures all loads and variants in 10 rounds by default', () => {
  expect(parseCostArguments([])).toEqual({
    loads: LOADS,
    variants: VARIANTS,
    json: false,
    rounds: 10,
    warmupMs: 4000,
    measuredMs: 8000,
  });
});

it('the bench of costs measures the named loads with the named variants', () => {
  const { loads, variants } = parseCostArguments(['traces-all', 'gateway-64', '--rounds', '1']);
  expect([loads, variants]).toEqual([['gateway-64'], ['traces-all']]);
});

it.each([['metrics'], ['--rounds=0'], ['--pairs=3']])('the bench of costs refuses %s', (argument) => {
  expect(() => parseCostArguments([argument])).toThrow(ArgumentError);
});

it('a median has its standard error, which one wild round changes little', () => {
  expect(typicalOf([1, 2, 3, 4])).toEqual({ median: 2.5, error: expect.closeTo(0.929, 3) });
  expect(typicalOf([1, 2, 3, 4, 100])).toEqual({ median: 3, error: expect.closeTo(0.831, 3) });
  expect(typicalOf([2])).toEqual({ median: 2, error: Number.NaN });
});

const round = (plain: Figures, other: Figures): Round =>
  new Map([
    ['plain', plain],
    ['no-metrics', other],
    ['traces-all', other],
  ]);
const ROUNDS = [
  round({ cpuUs: 50, perSecond: 90 }, { cpuUs: 40, perSecond: 100 }),
  round({ cpuUs: 100, perSecond: 45 }, { cpuUs: 80, perSecond: 50 }),
];

it('the cost of metrics is that of a process with them to one without', () => {
  const { of, cpu, perSecond } = costOf('gateway-64', 'no-metrics', ROUNDS);
  expect([of, cpu.median, perSecond.median]).toEqual(['metrics', 1.25, 0.9]);
});

it('the cost of traces is that of a process with them to one without', () => {
  const { of, cpu, perSecond } = costOf('gateway-64', 'traces-all', ROUNDS);
  expect([of, cpu.median, perSecond.median]).toEqual(['traces-all', 0.8, expect.closeTo(1.111, 3)]);
});

const cost = (changes: Partial<Cost>): Cost => ({
  load: 'gateway-64',
  of: 'metrics',
  rounds: 10,
  cpu: { median: 1.02, error: 0.01 },
  perSecond: { median: 0.96, error: 0.009 },
  ...changes,
});

it.each([
  ['metrics of a gateway', {}, true],
  ['metrics of a gateway within two standard errors', { perSecond: { median: 0.96, error: 0.011 } }, false],
  ['metrics of a gateway in one round', { perSecond: { median: 0.5, error: Number.NaN } }, false],
  ['metrics of a worker', { load: 'workers-message-sent' }, false],
  ['traces of a gateway', { of: 'traces-all' }, false],
] as const)('a cost of more than 2 %% of the records per second: %s', (_, changes, expected) => {
  expect(isTooHigh(cost(changes))).toBe(expected);
});

it('a cost is described with its errors, as far as they are known', () => {
  expect(describeCost(cost({}))).toBe(
    'gateway-64, metrics: CPU per record × 1.020 ± 0.010, records/s × 0.960 ± 0.009 (10 rounds)',
  );
  expect(describeCost(cost({ rounds: 1, cpu: typicalOf([1.5]) }))).toContain(
    'CPU per record × 1.500, records/s',
  );
});
