/**
 * Settles as the promise does, but rejects if that takes longer. The work continues after that, and
 * its result is dropped. `timeoutError` creates the error; default: an Error `no answer within …
 * ms`.
 */
export async function withDeadline<T>(
  promise: Promise<T>,
  deadlineMs: number,
  timeoutError: () => unknown = () => new Error(`no answer within ${deadlineMs} ms`),
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(timeoutError()), deadlineMs);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Waits until the promise has settled, for `deadlineMs` at most. Resolves with whether the promise
 * has settled; never rejects.
 */
export async function settledWithDeadline(promise: Promise<unknown>, deadlineMs: number): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  return await withDeadline(settled, deadlineMs).catch(() => false);
}

/**
 * Waits for a time. Ends early, without an error, when the signal is aborted. With `ref: false` the
 * wait keeps no process alive.
 */
export function sleep(
  ms: number,
  { signal, ref = true }: { readonly signal?: AbortSignal; readonly ref?: boolean } = {},
): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    if (!ref) timer.unref();
    signal?.addEventListener('abort', end);
  });
}

/** The pauses between retries, in milliseconds. */
export interface Backoff {
  readonly minMs: number;
  readonly maxMs: number;
}

/** The random part of a pause. With jitter, clients that failed together do not retry together. */
const JITTER = 0.25;

/**
 * Milliseconds until the next attempt: `minMs` after the first failure, doubled with each one, less
 * the jitter.
 */
export function backoffMs(failures: number, { minMs, maxMs }: Backoff, random = Math.random): number {
  const doublings = Math.min(Math.max(failures - 1, 0), 30);
  return Math.min(minMs * 2 ** doublings, maxMs) * (1 - JITTER * random());
}

export interface RetryOptions {
  readonly backoff: Backoff;
  /** Ends the retries, and the pause between two. */
  readonly signal: AbortSignal;
  /**
   * Called after each failure with the number of failures so far. An error that this function
   * throws ends the retries.
   */
  readonly onFailure?: (error: unknown, failures: number) => void;
  /** With false, the pauses keep no process alive. Default true. */
  readonly ref?: boolean;
}

/**
 * Retries `work` until it succeeds, with backoff. Resolves with the result of `work`, or with
 * undefined once the signal is aborted. Rejects only with an error that `onFailure` throws.
 */
export async function retryUntilSuccess<T>(
  work: () => Promise<T>,
  { backoff, signal, onFailure, ref = true }: RetryOptions,
): Promise<T | undefined> {
  for (let failures = 1; !signal.aborted; failures++) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted) break;
      onFailure?.(error, failures);
      await sleep(backoffMs(failures, backoff), { signal, ref });
    }
  }
  return undefined;
}

export interface SingleFlight<Key, T> {
  (key: Key): Promise<T>;
  /** Resolves when the calls in flight have settled; never rejects. */
  idle(): Promise<void>;
}

/**
 * Returns a function that runs `work`; concurrent calls with the same key, or all without one,
 * share one promise.
 */
export function singleFlight<T, Key = void>(work: (key: Key) => Promise<T>): SingleFlight<Key, T> {
  const running = new Map<Key, Promise<T>>();
  const run = (key: Key): Promise<T> => {
    const promise = running.get(key) ?? work(key).finally(() => running.delete(key));
    running.set(key, promise);
    return promise;
  };
  const idle = async (): Promise<void> => {
    await Promise.allSettled(running.values());
  };
  return Object.assign(run, { idle });
}

/** Returns a function that repeats the last result while it is not older than `everyMs`. */
export function atMostEvery<T>(everyMs: number, read: () => T): () => T {
  let last: { readonly atMs: number; readonly result: T } | undefined;
  return () => {
    const atMs = performance.now();
    if (!last || atMs - last.atMs >= everyMs) last = { atMs, result: read() };
    return last.result;
  };
}
