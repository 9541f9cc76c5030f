import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createRateLimitedLog } from '../../shared/rate-limited-log.ts';

function setUp() {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => {
    const { level, msg, id, count } = JSON.parse(line);
    lines.push({ level, msg, id, count });
  };
  return { lines, log: createRateLimitedLog(pino({ level: 'info' }, { write })) };
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
});
