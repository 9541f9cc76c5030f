import { expect, it } from 'vitest';
import { Histogram } from '../../bench/load/histogram.ts';
import { compare } from '../../bench/rounds.ts';
import { median, percentile, spread } from '../../bench/statistics.ts';

it('the median is the middle value, or the mean of the two middle ones', () => {
  expect(median([9, 1, 10])).toBe(9);
  expect(median([4, 10, 1, 2])).toBe(3);
  expect(median([])).toBeNaN();
});

it('the spread is the lowest and the highest value', () => {
  expect(spread([3, 1, 2])).toEqual({ low: 1, high: 3 });
});

it('a percentile is the value that a share of the values does not exceed', () => {
  const values = Array.from({ length: 100 }, (_, i) => 100 - i);
  expect(percentile(values, 0.99)).toBe(99);
  expect(percentile(values, 0.5)).toBe(50);
  expect(percentile([7], 0.99)).toBe(7);
});

it('each round is compared with the limit of the same round', () => {
  expect(compare([10, 30, 20], [100, 100, 40])).toEqual({ value: 20, limit: 100, ratios: [0.1, 0.3, 0.5] });
});

it('a histogram has percentiles accurate to 0.05 ms', () => {
  const histogram = new Histogram();
  for (let i = 1; i <= 100; i++) histogram.add(i);
  expect(histogram.percentile(0.5)).toBeCloseTo(50.05);
  expect(histogram.percentile(0.99)).toBeCloseTo(99.05);
  expect(new Histogram().percentile(0.5)).toBeNaN();
});
