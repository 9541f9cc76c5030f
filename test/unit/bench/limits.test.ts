import { expect, it } from 'vitest';
import { itemsFor } from '../../bench/drain.ts';
import { worstOf } from '../../bench/latency.ts';
import { readRate } from '../../bench/limits/producer-performance.ts';

it('picks the figure that misses its goal by most', () => {
  const figures = [
    { unit: 'first', value: 5, goal: 10 },
    { unit: 'second', value: 90, goal: 40 },
    { unit: 'third', value: 20, goal: 15 },
  ];
  expect(worstOf(figures).unit).toBe('second');
});

it('fills a backlog with a fifth more than the last rate requires', () => {
  expect(itemsFor({ rounds: 3, warmupMs: 10_000, measuredMs: 30_000 }, 1000)).toBe(48_000);
});

it('reads the rate of the last line that ProducerPerformance printed', () => {
  const output = [
    '52000 records sent, 10395.8 records/sec (5.95 MB/sec), 1.7 ms avg latency, 110.0 ms max latency.',
    '100000 records sent, 70921.985816 records/sec (40.58 MB/sec), 12.04 ms avg latency, 110.00 ms max latency.',
    '',
  ].join('\n');
  expect(readRate(output)).toBeCloseTo(70_921.99, 2);
});

it('refuses output of ProducerPerformance without a rate', () => {
  expect(() => readRate('Exception in thread "main"\n')).toThrow('printed no rate');
});
