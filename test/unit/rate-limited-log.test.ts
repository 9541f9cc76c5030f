import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createRateLimitedLog, type RateLimitedLogOptions } from '../../shared/rate-limited-log.ts';

function setUp(options: RateLimitedLogOptions = {}) {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => {
    const { level, msg, id, count } = JSON.parse(line);
    lines.push({ level, msg, id, count });
  };
  return { lines, log: createRateLimitedLog(pino({ level: 'info' }, { write }), options) };
}

describe('rate-limited log', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('writes the first line immediately and then one per second with its count', () => {
    const { lines, log } = setUp();
    for (let id = 1; id <= 1000; id++) log.warn({ id }, 'refused');
    expect(lines).toEqual([{ level: 40, msg: 'refused', id: 1, count: undefined }]);
    vi.advanceTimersByTime(1000);
    expect(lines.slice(1)).toEqual([{ level: 40, msg: 'refused', id: 1000, count: 999 }]);
    log.warn({ id: 1001 }, 'refused');
    log.warn({ id: 1002 }, 'refused');
    vi.advanceTimersByTime(1000);
    expect(lines.slice(2)).toEqual([{ level: 40, msg: 'refused', id: 1002, count: 2 }]);
  });

  it('writes a line immediately again after a second without one', () => {
    const { lines, log } = setUp();
    log.warn({ id: 1 }, 'refused');
    vi.advanceTimersByTime(1000);
    log.warn({ id: 2 }, 'refused');
    expect(lines.map(({ id }) => id)).toEqual([1, 2]);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1000);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('counts each level, message and kind separately', () => {
    const { lines, log } = setUp();
    log.warn({ id: 1 }, 'refused');
    log.error({ id: 2 }, 'refused');
    log.error({ id: 3 }, 'failed', '42P01');
    log.error({ id: 4 }, 'failed', '57014');
    log.error({ id: 5 }, 'failed', '57014');
    expect(lines.map(({ id }) => id)).toEqual([1, 2, 3, 4]);
  });

  it('writes as many lines of a kind immediately as the burst permits, and recovers it over time', () => {
    const { lines, log } = setUp({ burst: 3, intervalMs: 10_000 });
    for (let id = 1; id <= 100; id++) log.info({ id }, 'refused');
    expect(lines.map(({ id }) => id)).toEqual([1, 2, 3]);
    vi.advanceTimersByTime(10_000);
    expect(lines.slice(3)).toEqual([{ level: 30, msg: 'refused', id: 100, count: 97 }]);
    vi.advanceTimersByTime(10_000);
    for (let id = 101; id <= 103; id++) log.info({ id }, 'refused');
    expect(lines.slice(4).map(({ id }) => id)).toEqual([101]);
    vi.advanceTimersByTime(60_000);
    expect(lines.slice(5)).toEqual([{ level: 30, msg: 'refused', id: 103, count: 2 }]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('writes at most one line per interval and the burst, however the lines are spaced', () => {
    const { lines, log } = setUp({ burst: 5, intervalMs: 10_000 });
    for (let second = 0; second < 600; second++) {
      log.info({ id: second }, 'refused');
      vi.advanceTimersByTime(1000);
    }
    expect(lines.length).toBeGreaterThan(50);
    expect(lines.length).toBeLessThanOrEqual(5 + 60);
  });

  it('reports the lines that it left out', () => {
    let leftOut = 0;
    const onLeftOut = (count: number) => {
      leftOut += count;
    };
    const { lines, log } = setUp({ burst: 2, onLeftOut });
    for (let id = 1; id <= 10; id++) log.info({ id }, 'refused');
    vi.advanceTimersByTime(1000);
    expect([lines.length, leftOut]).toEqual([3, 7]);
  });

  it('leaves lines of a level that is not logged out without a timer', () => {
    const { lines, log } = setUp();
    const silent = createRateLimitedLog(pino({ level: 'error' }, { write: () => lines.push({}) }));
    silent.info({}, 'refused');
    expect([lines, vi.getTimerCount()]).toEqual([[], 0]);
    log.info({ id: 1 }, 'refused');
    expect(lines).toHaveLength(1);
  });
});
