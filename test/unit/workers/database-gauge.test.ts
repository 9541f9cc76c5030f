import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { databaseGauge, type Sample } from '../../../workers/database-gauge.ts';
import { metricGrowth, metricValue } from '../../support/metric-value.ts';

/** Milliseconds until the database answers a COMMIT. */
let commitMs = 0;
const client = {
  async query({ text }: { text: string }) {
    if (text === 'commit') vi.advanceTimersByTime(commitMs);
    return { rows: [], rowCount: 0 };
  },
  on() {},
  removeListener() {},
  release() {},
};
const pool = { connect: async () => client } as unknown as Pool;

let gauges = 0;

/** Defines a gauge that reads with `read`. */
function define(read: () => Promise<readonly Sample[]>) {
  gauges += 1;
  const name = `test_gauge_${gauges}`;
  const start = databaseGauge({ name, help: 'A gauge.', read });
  const failures = () => metricGrowth('sluice_metrics_read_failures_total', { metric: name });
  return { name, start: () => start(pool, () => 0), failures };
}

describe('a gauge that is read from the database', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('is read when it is scraped, at most every 15 seconds', async () => {
    let reads = 0;
    const { name, start } = define(async () => [{ labels: {}, value: ++reads }]);
    expect(await metricValue(name)).toBeUndefined();
    const end = start();
    expect(reads).toBe(0);
    expect(await metricValue(name)).toBe(1);
    vi.advanceTimersByTime(14_999);
    expect(await metricValue(name)).toBe(1);
    vi.advanceTimersByTime(1);
    expect(await metricValue(name)).toBe(2);
    end();
    expect(await metricValue(name)).toBeUndefined();
  });

  it('is absent and counted after a failed read, until the next one', async () => {
    let isDown = true;
    const { name, start, failures } = define(async () => {
      if (isDown) throw new Error('connection refused');
      return [{ labels: {}, value: 7 }];
    });
    const end = start();
    const failed = await failures();
    expect(await metricValue(name)).toBeUndefined();
    expect(await failed()).toBe(1);
    isDown = false;
    expect(await metricValue(name)).toBeUndefined();
    vi.advanceTimersByTime(15_000);
    expect(await metricValue(name)).toBe(7);
    expect(await failed()).toBe(1);
    end();
  });

  it('measures the round trip to the database by its COMMIT', async () => {
    const { name, start } = define(async () => {
      vi.advanceTimersByTime(700);
      return [{ labels: {}, value: 1 }];
    });
    const seconds = await metricGrowth('sluice_database_round_trip_seconds_sum');
    const count = await metricGrowth('sluice_database_round_trip_seconds_count');
    commitMs = 30;
    const end = start();
    await metricValue(name);
    commitMs = 0;
    expect([await count(), await seconds()]).toEqual([1, expect.closeTo(0.03)]);
    end();
  });

  it('delays a scrape by 2 seconds at most, together with others', async () => {
    let release = () => {};
    const hanging = define(async () => {
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      return [];
    });
    const next = define(async () => [{ labels: {}, value: 1 }]);
    const ends = [hanging.start(), next.start()];
    const failed = await next.failures();
    const scraped = Promise.all([metricValue(hanging.name), metricValue(next.name)]);
    await vi.advanceTimersByTimeAsync(2000);
    expect(await scraped).toEqual([undefined, undefined]);
    expect(await failed()).toBe(1);
    release();
    vi.advanceTimersByTime(15_000);
    expect(await metricValue(next.name)).toBe(1);
    for (const end of ends) end();
  });
});
