import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addHistograms, decodeHistogram, encodeBuckets } from '../../../shared/message-sent/delta.ts';
import { BUCKETS, bucketOf, Histogram } from '../../../shared/message-sent/histogram.ts';
import { seededRandom } from '../../support/random.ts';

const ERROR_MAX = 0.02;
const QUANTILES = [0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1];

function histogramOf(values: readonly number[]): Histogram {
  const histogram = new Histogram();
  for (const value of values) histogram.add(bucketOf(value));
  return histogram;
}

/** Returns the value at the rank ⌊q(n-1)⌋. */
function exactQuantile(values: readonly number[], q: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(q * (values.length - 1))]!;
}

function relativeError(estimate: number, exact: number): number {
  return estimate === exact ? 0 : Math.abs(estimate - exact) / exact;
}

/** A normally distributed number (Box and Muller). */
function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** Times as agents produce them, in seconds. */
const DISTRIBUTIONS: readonly { readonly name: string; next(random: () => number): number }[] = [
  {
    name: 'crafting times, log-normal with a median of 12 s',
    next: (random) => Math.exp(Math.log(12) + 0.9 * normal(random)),
  },
  {
    name: 'dwell times, 0 in 40% of messages, else exponential in whole milliseconds',
    next: (random) => (random() < 0.4 ? 0 : Math.round(-400 * Math.log(1 - random())) / 1000),
  },
  {
    name: 'times to action, of agents who answer, who wait, and after breaks of hours',
    next: (random) => {
      const kind = random();
      if (kind < 0.7) return 0.3 + 4 * random();
      return kind < 0.97 ? Math.exp(Math.log(45) + 0.5 * normal(random)) : 600 / (1 - random()) ** 0.7;
    },
  },
];

describe('quantiles of a histogram', () => {
  it.each(DISTRIBUTIONS)('differ by at most 2%: $name', ({ name, next }) => {
    const random = seededRandom(17);
    const values = Array.from({ length: 50_000 }, () => next(random));
    const histogram = histogramOf(values);
    const errors = QUANTILES.map((q) => relativeError(histogram.quantile(q)!, exactQuantile(values, q)));
    const list = QUANTILES.map((q, i) => `p${q * 100} ${(errors[i]! * 100).toFixed(2)}%`).join(', ');
    console.log(`${name}: ${list}; ${encodeBuckets(values.map(bucketOf)).length} bytes`);
    expect(Math.max(...errors)).toBeLessThanOrEqual(ERROR_MAX);
  });

  it('differ by at most 2% for any times from 1 microsecond to 11 days', () => {
    const time = fc.oneof(fc.constant(0), fc.double({ min: 1e-6, max: 1e6, noNaN: true }));
    fc.assert(
      fc.property(
        fc.array(time, { minLength: 1 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (values, q) => {
          const error = relativeError(histogramOf(values).quantile(q)!, exactQuantile(values, q));
          expect(error).toBeLessThanOrEqual(ERROR_MAX);
        },
      ),
    );
  });

  it('of no values are undefined', () => expect(new Histogram().quantile(0.5)).toBeUndefined());
});

describe('the bucket of a time', () => {
  it('exists for every number', () => {
    fc.assert(
      fc.property(fc.double(), (seconds) => {
        const bucket = bucketOf(seconds);
        expect(Number.isInteger(bucket) && bucket >= 0 && bucket < BUCKETS).toBe(true);
      }),
    );
  });

  it.each([
    [-1, 0],
    [0, 0],
    [9e-7, 0],
    [1e-6, 1],
    [1e6, BUCKETS - 1],
    [1e300, BUCKETS - 1],
  ])('%d is %d', (seconds, bucket) => expect(bucketOf(seconds)).toBe(bucket));
});

describe('the bytes of histograms', () => {
  it('joined are the bytes of their sum', () => {
    const buckets = fc.array(fc.nat(BUCKETS - 1));
    fc.assert(
      fc.property(buckets, buckets, (one, other) => {
        const bytes = [encodeBuckets(one), encodeBuckets(other)];
        const joined = decodeHistogram(Buffer.concat(bytes));
        expect(addHistograms(bytes)).toEqual(encodeBuckets([...one, ...other]));
        expect(joined.count).toBe(one.length + other.length);
      }),
    );
  });
});
