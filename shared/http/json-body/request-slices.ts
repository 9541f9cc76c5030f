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
 * The requests of this process that wait for a slice, since they share one thread. New requests go
 * first. Each queue serves tenants round-robin, so that the number of a tenant's open requests does
 * not delay others.
 */
const fresh = new FairQueue<() => void>();
const continuing = new FairQueue<() => void>();
let scheduled = false;
/** End of the work in this turn of the event loop. */
let turnEndMs: number | undefined;

/**
 * Runs a generator to its end, in slices that alternate with those of other requests. However many
 * large requests are open, their work takes about 8 ms per turn of the event loop.
 */
export function runInRequestSlices<R>(
  tenantId: string,
  work: Generator<undefined, R, undefined>,
): R | Promise<R> {
  if (!mayBegin()) return turnOf(tenantId, fresh).then(() => runFirstSlice(tenantId, work));
  return runFirstSlice(tenantId, work);
}

/** Runs the first slice. A small request ends in it, without a promise. */
function runFirstSlice<R>(tenantId: string, work: Generator<undefined, R, undefined>): R | Promise<R> {
  const step = runSlice(work, FIRST_SLICE_MS);
  return step.done ? step.value : runFurtherSlices(tenantId, work);
}

async function runFurtherSlices<R>(tenantId: string, work: Generator<undefined, R, undefined>): Promise<R> {
  for (;;) {
    await turnOf(tenantId, continuing);
    const step = runSlice(work, SLICE_MS);
    if (step.done) return step.value;
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

/** Returns whether this turn has time left for the first slice of a request. */
function mayBegin(): boolean {
  schedule();
  turnEndMs ??= performance.now() + SLICE_MS;
  return performance.now() < turnEndMs;
}

function turnOf(tenantId: string, queue: FairQueue<() => void>): Promise<void> {
  schedule();
  return new Promise((resolve) => queue.add(tenantId, resolve));
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
  for (let count = 0; count < FIRST_SLICES; count++) fresh.take(always)?.();
  continuing.take(always)?.();
}

function always(): boolean {
  return true;
}
