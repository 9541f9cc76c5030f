import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  backoffMs,
  retryUntilSuccess,
  settledWithDeadline,
  singleFlight,
  sleep,
  withDeadline,
} from '../../shared/async.ts';

const NEVER = new Promise<never>(() => {});
const BACKOFF = { minMs: 100, maxMs: 1000 };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('withDeadline', () => {
  it('settles as the promise does and leaves no timer', async () => {
    expect(await withDeadline(Promise.resolve(1), 100)).toBe(1);
    await expect(withDeadline(Promise.reject(new Error('broken')), 100)).rejects.toThrow('broken');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('rejects a pending promise at the deadline, with the given error', async () => {
    const late = expect(withDeadline(NEVER, 100)).rejects.toThrow('no answer within 100 ms');
    const own = expect(withDeadline(NEVER, 100, () => new Error('too slow'))).rejects.toThrow('too slow');
    await vi.advanceTimersByTimeAsync(100);
    await Promise.all([late, own]);
  });
});

describe('settledWithDeadline', () => {
  it('resolves with whether the promise settled, rejected or not', async () => {
    expect(await settledWithDeadline(Promise.resolve(), 100)).toBe(true);
    expect(await settledWithDeadline(Promise.reject(new Error('broken')), 100)).toBe(true);
    const pending = settledWithDeadline(NEVER, 100);
    await vi.advanceTimersByTimeAsync(100);
    expect(await pending).toBe(false);
  });
});

describe('sleep', () => {
  it('ends after its time', async () => {
    const done = vi.fn();
    void sleep(100).then(done);
    await vi.advanceTimersByTimeAsync(99);
    expect(done).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toHaveBeenCalled();
  });

  it('ends without an error and without a timer when the signal is aborted', async () => {
    const closing = new AbortController();
    const pause = sleep(100, { signal: closing.signal });
    closing.abort();
    await pause;
    await sleep(100, { signal: closing.signal });
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('backoffMs', () => {
  it('doubles with each failure up to the maximum', () => {
    const pauses = [1, 2, 3, 4, 5, 6, 2000].map((failures) => backoffMs(failures, BACKOFF, () => 0));
    expect(pauses).toEqual([100, 200, 400, 800, 1000, 1000, 1000]);
  });

  it('is reduced by a random quarter at most', () => {
    expect(backoffMs(3, BACKOFF, () => 1)).toBe(300);
    expect(backoffMs(3, BACKOFF)).toBeGreaterThanOrEqual(300);
    expect(backoffMs(3, BACKOFF)).toBeLessThanOrEqual(400);
  });
});

describe('retryUntilSuccess', () => {
  it('retries until the work succeeds and reports each failure', async () => {
    const failures: number[] = [];
    let attempts = 0;
    const result = retryUntilSuccess(
      async () => {
        attempts += 1;
        if (attempts < 3) throw new Error('down');
        return 'up';
      },
      {
        backoff: BACKOFF,
        signal: new AbortController().signal,
        onFailure: (_, count) => void failures.push(count),
      },
    );
    await vi.runAllTimersAsync();
    expect(await result).toBe('up');
    expect(failures).toEqual([1, 2]);
  });

  it('ends with undefined when the signal is aborted, during a pause and during an attempt', async () => {
    const closing = new AbortController();
    const { signal } = closing;
    const onFailure = vi.fn();
    const fail = () => Promise.reject(new Error('down'));
    const pausing = retryUntilSuccess(fail, { backoff: BACKOFF, signal });
    const attempt = pending();
    const attempting = retryUntilSuccess(() => attempt.promise, {
      backoff: BACKOFF,
      signal,
      onFailure,
    });
    await vi.advanceTimersByTimeAsync(10);
    closing.abort();
    attempt.reject(new Error('closed'));
    expect(await Promise.all([pausing, attempting])).toEqual([undefined, undefined]);
    expect(onFailure).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('rejects with the error that onFailure throws', async () => {
    const retried = retryUntilSuccess(() => Promise.reject(new Error('refused')), {
      backoff: BACKOFF,
      signal: new AbortController().signal,
      onFailure(error) {
        throw error;
      },
    });
    await expect(retried).rejects.toThrow('refused');
  });
});

describe('singleFlight', () => {
  it('shares a promise between calls with the same key while the work runs', async () => {
    const ends: (() => void)[] = [];
    const work = vi.fn((key: string) => new Promise<string>((resolve) => ends.push(() => resolve(key))));
    const run = singleFlight(work);
    const calls = [run('a'), run('a'), run('b')];
    expect(work).toHaveBeenCalledTimes(2);
    for (const end of ends) end();
    expect(await Promise.all(calls)).toEqual(['a', 'a', 'b']);
    void run('a');
    expect(work).toHaveBeenCalledTimes(3);
  });

  it('runs the work again after it failed', async () => {
    const run = singleFlight(() => Promise.reject(new Error('down')));
    await expect(run()).rejects.toThrow('down');
    await expect(run()).rejects.toThrow('down');
  });

  it('is idle once the running work has settled, failed or not', async () => {
    const work = pending();
    const run = singleFlight(() => work.promise);
    const call = expect(run()).rejects.toThrow('down');
    const idle = run.idle();
    work.reject(new Error('down'));
    await Promise.all([call, idle, run.idle()]);
  });
});

function pending() {
  let reject = (_: Error): void => {};
  const promise = new Promise<void>((_, no) => {
    reject = no;
  });
  return { promise, reject };
}
