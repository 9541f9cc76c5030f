import { describe, expect, it } from 'vitest';
import { mapInRequestSlices, runInRequestSlices } from '../../../shared/http/json-body/request-slices.ts';

/** Blocks the thread. */
function workFor(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

describe('requests in slices', () => {
  it('return all results in order', async () => {
    const values = Array.from({ length: 1000 }, (_, i) => i);
    expect(await mapInRequestSlices('tenant-a', values, (value) => value * 2)).toEqual(
      values.map((value) => value * 2),
    );
    expect(await mapInRequestSlices('tenant-a', [], (value) => value)).toEqual([]);
  });

  it('take a few milliseconds per turn of the event loop, however many are open', async () => {
    let steps = 0;
    let most = 0;
    let open = true;
    setImmediate(function turn() {
      most = Math.max(most, steps);
      steps = 0;
      if (open) setImmediate(turn);
    });
    const large = Array.from({ length: 50 }, () =>
      mapInRequestSlices('tenant-a', Array.from({ length: 10 }), () => {
        workFor(1);
        steps += 1;
      }),
    );
    await Promise.all(large);
    open = false;
    // If each of the 50 requests had a separate slice, the value would be 200.
    expect(most).toBeLessThan(25);
  });

  it('do not begin large ones while several are unfinished, however many arrive', async () => {
    let begun = 0;
    let ended = 0;
    let most = 0;
    function* work(): Generator<undefined, void, undefined> {
      begun += 1;
      most = Math.max(most, begun - ended);
      for (let step = 0; step < 10; step++) {
        workFor(1);
        yield;
      }
      ended += 1;
    }
    const large = Array.from({ length: 30 }, (_, i) =>
      runInRequestSlices(`tenant-${i % 3}`, work(), { isLarge: true }),
    );
    await Promise.all(large);
    expect(ended).toBe(30);
    // Two that are suspended, and those that begin in the same turn of the event loop.
    expect(most).toBeLessThan(8);
  });

  it('let a small request overtake earlier large ones', async () => {
    const finished: string[] = [];
    const large = Array.from({ length: 20 }, () =>
      mapInRequestSlices('tenant-a', Array.from({ length: 40 }), () => workFor(1)).then(() =>
        finished.push('large'),
      ),
    );
    await new Promise(setImmediate);
    const small = mapInRequestSlices('tenant-a', [1], () => workFor(0.1)).then(() => finished.push('small'));
    await Promise.all([...large, small]);
    expect(finished[0]).toBe('small');
  });

  it('give each tenant its turn, however many requests of another tenant came first', async () => {
    const finished: string[] = [];
    const send = (tenantId: string) =>
      mapInRequestSlices(tenantId, [1, 2, 3], () => workFor(1)).then(() => finished.push(tenantId));
    const flood = Array.from({ length: 100 }, () => send('tenant-a'));
    await Promise.all([...flood, send('tenant-b')]);
    // Without turns per tenant, tenant-b finishes last.
    expect(finished.indexOf('tenant-b')).toBeLessThan(10);
  });

  it('reject with the error of the work, and continue with other requests', async () => {
    const failing = mapInRequestSlices('tenant-a', [1], () => {
      throw new Error('a defect');
    });
    const other = mapInRequestSlices('tenant-a', [1], (value) => value);
    await expect(failing).rejects.toThrow('a defect');
    expect(await other).toEqual([1]);
  });
});
