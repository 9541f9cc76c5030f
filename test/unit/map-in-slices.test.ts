import { describe, expect, it } from 'vitest';
import { mapInSlices } from '../../shared/map-in-slices.ts';

describe('work in slices', () => {
  it('returns all results in order', async () => {
    const values = Array.from({ length: 1000 }, (_, i) => i);
    expect(await mapInSlices(values, (value) => value * 2)).toEqual(values.map((value) => value * 2));
    expect(await mapInSlices([], (value) => value)).toEqual([]);
  });

  it('yields to the event loop between slices', async () => {
    let done = 0;
    const doneAtTurns: number[] = [];
    const working = mapInSlices(Array.from({ length: 40 }), () => {
      const startedMs = performance.now();
      while (performance.now() - startedMs < 1);
      done++;
    });
    setImmediate(function turn() {
      doneAtTurns.push(done);
      if (done < 40) setImmediate(turn);
    });
    await working;
    expect(doneAtTurns[0]).toBeLessThan(20);
    expect(new Set(doneAtTurns).size).toBeGreaterThan(3);
  });

  it('rejects with the error of the work', async () => {
    const failing = mapInSlices([1], () => {
      throw new Error('a defect');
    });
    await expect(failing).rejects.toThrow('a defect');
  });
});
