import { FairQueue } from '../../fair-queue.ts';
import { mapOneByOne } from '../../map-in-slices.ts';

/**
 * Milliseconds for which a request is processed before other requests get their turn. A step that
 * takes longer finishes first.
 */
const SLICE_MS = 4;
/**
 * Milliseconds of the first slice of a request. Small requests finish in their first slice, and
 * need not wait for large ones.
 */
const FIRST_SLICE_MS = 1;
/** Requests whose first slice runs in one turn of the event loop. */
const FIRST_SLICES = 4;
/**
 * Suspended requests from which the work on further large bodies does not begin. The values of all
 * suspended requests are in the heap, and each garbage collection copies them.
 */
const SUSPENDED_MAX = 2;

/** A request that waits for its first slice. */
interface Fresh {
  readonly begin: () => void;
  readonly isLarge: boolean;
}

/**
 * The requests of this process that wait for a slice, since they share one thread. New requests go
 * first. Each queue serves tenants round-robin, so that the number of a tenant's open requests does
 * not delay others.
 */
const fresh = new FairQueue<Fresh>();
const continuing = new FairQueue<() => void>();
/** Requests whose work has begun and needs further slices. */
let suspended = 0;
let scheduled = false;
/** End of the work in this turn of the event loop. */
let turnEndMs: number | undefined;

/**
 * Runs a generator to its end, in slices that alternate with those of other requests. However many
 * large requests are open, their work takes about 8 ms per turn of the event loop. Work that is
 * large begins only while few requests are suspended.
 */
export function runInRequestSlices<R>(
  tenantId: string,
  work: Generator<undefined, R, undefined>,
  { isLarge = false } = {},
): R | Promise<R> {
  if (hasTime() && mayBegin({ isLarge })) return runFirstSlice(tenantId, work);
  return new Promise<void>((begin) => {
    fresh.add(tenantId, { begin, isLarge });
  }).then(() => runFirstSlice(tenantId, work));
}

/** Runs the first slice. A small request ends in it, without a promise. */
function runFirstSlice<R>(tenantId: string, work: Generator<undefined, R, undefined>): R | Promise<R> {
  const step = runSlice(work, FIRST_SLICE_MS);
  return step.done ? step.value : runFurtherSlices(tenantId, work);
}

async function runFurtherSlices<R>(tenantId: string, work: Generator<undefined, R, undefined>): Promise<R> {
  suspended += 1;
  try {
    for (;;) {
      await turnOf(tenantId);
      const step = runSlice(work, SLICE_MS);
      if (step.done) return step.value;
    }
  } finally {
    suspended -= 1;
  }
}

function runSlice<R>(
  work: Generator<undefined, R, undefined>,
  sliceMs: number,
): IteratorResult<undefined, R> {
  const sliceEndMs = performance.now() + sliceMs;
  let step = work.next();
  while (!step.done && performance.now() < sliceEndMs) step = work.next();
  return step;
}

/** Returns `values.map(work)`, computed in slices. */
export async function mapInRequestSlices<T, R>(
  tenantId: string,
  values: readonly T[],
  work: (value: T) => R,
): Promise<R[]> {
  return await runInRequestSlices(tenantId, mapOneByOne(values, work));
}

function mayBegin({ isLarge }: Pick<Fresh, 'isLarge'>): boolean {
  return !isLarge || suspended < SUSPENDED_MAX;
}

/** Returns whether this turn has time left for the first slice of a request. */
function hasTime(): boolean {
  schedule();
  turnEndMs ??= performance.now() + SLICE_MS;
  return performance.now() < turnEndMs;
}

function turnOf(tenantId: string): Promise<void> {
  schedule();
  return new Promise((resolve) => continuing.add(tenantId, resolve));
}

function schedule(): void {
  if (scheduled) return;
  scheduled = true;
  setImmediate(nextTurn);
}

function nextTurn(): void {
  scheduled = false;
  turnEndMs = undefined;
  if (fresh.tenants + continuing.tenants === 0) return;
  schedule();
  // Reserves time for both, so that neither new requests nor large ones starve.
  turnEndMs = performance.now() + FIRST_SLICE_MS;
  for (let count = 0; count < FIRST_SLICES; count++) fresh.take(mayBegin)?.begin();
  continuing.take(always)?.();
}

function always(): boolean {
  return true;
}
