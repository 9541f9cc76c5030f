import { setImmediate as nextTurn } from 'node:timers/promises';
import { sleep } from './async.ts';

/**
 * Milliseconds of work in one turn of the event loop. A step that exceeds this time is completed.
 * Every answer of the database waits for the end of the slice that is running.
 */
const SLICE_MS = 1;
/** Values from which work on them is large. */
export const LARGE_FROM = 200;
/** Milliseconds for which large work may wait for urgent work without a slice of its own. */
const WAIT_MAX_MS = 20;

/** Milliseconds for which large work may wait for requests, per millisecond of its own. */
const REQUESTS_SHARE = 3;

/** The turn of the event loop that was last given to a slice. */
let lastTurn: Promise<void> = Promise.resolve();
/** Requests that this process has begun to store; see {@link noteRequest}. */
let requests = 0;
let urgent = 0;
let endOfUrgent: Promise<void> = Promise.resolve();
let noteEndOfUrgent = () => {};
/** Milliseconds for which large work may wait at present. It has to run for as long as it waited. */
let creditMs = WAIT_MAX_MS;

/**
 * Notes that a request is about to be stored. Large work waits while each turn of the event loop
 * brings requests, for three quarters of the time at most. So it is done while the process waits
 * for the log.
 */
export function noteRequest(): void {
  requests += 1;
}

/**
 * Runs urgent work, which waits for other processes. Meanwhile, large work waits between two of its
 * slices, for half of the time at most, so that the event loop is free for the answers.
 */
export async function runUrgent<T>(work: () => Promise<T>): Promise<T> {
  if (urgent === 0) endOfUrgent = new Promise((resolve) => (noteEndOfUrgent = resolve));
  urgent += 1;
  try {
    return await work();
  } finally {
    urgent -= 1;
    if (urgent === 0) noteEndOfUrgent();
  }
}

/**
 * Runs a generator to its end. Yields to the event loop at the first pause after {@link SLICE_MS}.
 * In each turn of the event loop, only one generator continues. `isLarge`: whether the work waits
 * for urgent work and for requests.
 */
export async function runInSlices<R>(
  work: Generator<undefined, R, undefined>,
  { isLarge = false } = {},
): Promise<R> {
  for (;;) {
    const startMs = performance.now();
    let endMs = startMs;
    let step = work.next();
    while (!step.done) {
      endMs = performance.now();
      if (endMs > startMs + SLICE_MS) break;
      step = work.next();
    }
    if (step.done) return step.value;
    if (isLarge) await waitForUrgent(endMs - startMs);
    const requestsBefore = requests;
    lastTurn = lastTurn.then(() => nextTurn());
    await lastTurn;
    if (isLarge) await waitForRequests(requestsBefore, endMs - startMs);
  }
}

async function waitForUrgent(workedMs: number): Promise<void> {
  creditMs = Math.min(creditMs + workedMs, WAIT_MAX_MS);
  if (urgent === 0 || creditMs < 1) return;
  const startMs = performance.now();
  const timer = new AbortController();
  await Promise.race([endOfUrgent, sleep(creditMs, { signal: timer.signal })]);
  timer.abort();
  creditMs -= performance.now() - startMs;
}

/** Waits while each turn of the event loop brings requests, after there were `before`. */
async function waitForRequests(before: number, workedMs: number): Promise<void> {
  const untilMs = performance.now() + REQUESTS_SHARE * workedMs;
  let known = before;
  while (requests > known && performance.now() < untilMs) {
    known = requests;
    await nextTurn();
  }
}

/** Runs a generator to its end, without a pause. */
export function runAtOnce<R>(work: Generator<undefined, R, undefined>): R {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

/** Returns `values.map(work)`, and yields to the event loop in between. */
export function mapInSlices<T, R>(values: readonly T[], work: (value: T) => R): Promise<R[]> {
  return runInSlices(mapOneByOne(values, work), { isLarge: values.length >= LARGE_FROM });
}

/** Computes `values.map(work)`, yielding after each value. */
export function* mapOneByOne<T, R>(
  values: readonly T[],
  work: (value: T) => R,
): Generator<undefined, R[], undefined> {
  const results: R[] = [];
  for (const value of values) {
    results.push(work(value));
    yield;
  }
  return results;
}
