import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LARGE_FROM, mapInSlices, noteRequest, runUrgent } from '../../shared/map-in-slices.ts';

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
      workForAMillisecond();
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

  it('continues one of several in each turn of the event loop', async () => {
    let done = 0;
    const step = () => {
      workForAMillisecond();
      done++;
    };
    const working = Promise.all([1, 2, 3].map(() => mapInSlices(Array.from({ length: 10 }), step)));
    for (let before = done; done < 30; before = done) {
      await nextTurn();
      expect(done - before).toBeLessThanOrEqual(1);
    }
    await working;
  });

  it('continues only small work while urgent work runs', async () => {
    const done = { large: 0, small: 0 };
    const step = (size: keyof typeof done) => () => {
      workForAMillisecond();
      done[size]++;
    };
    const { urgent, end } = startUrgent();
    const large = mapInSlices(Array.from({ length: LARGE_FROM }), step('large'));
    const small = mapInSlices(Array.from({ length: LARGE_FROM - 1 }), step('small'));
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    expect(done.large).toBe(1);
    expect(done.small).toBeGreaterThan(2);
    end();
    await Promise.all([urgent, large, small]);
    expect(done).toEqual({ large: LARGE_FROM, small: LARGE_FROM - 1 });
  });

  it('continues large work for half of the time while urgent work does not end', async () => {
    const large = () => mapInSlices(Array.from({ length: LARGE_FROM }), workForAMillisecond);
    const aloneMs = await timeOf(large);
    const { urgent, end } = startUrgent();
    // Twice the time, and a margin for a machine that became busier meanwhile.
    expect(await timeOf(large)).toBeLessThan(4 * aloneMs);
    end();
    await urgent;
  });

  it('continues only small work while each turn brings requests', async () => {
    const done = { large: 0, small: 0 };
    const large = mapInSlices(Array.from({ length: LARGE_FROM }), () => {
      // Large work may wait three times as long as its last slice took.
      workFor(done.large++ === 0 ? 20 : 0);
    });
    const small = mapInSlices(Array.from({ length: LARGE_FROM - 1 }), () => {
      workForAMillisecond();
      done.small++;
    });
    for (let turn = 0; turn < 5; turn++) {
      noteRequest();
      await nextTurn();
    }
    expect(done.large).toBe(1);
    expect(done.small).toBeGreaterThan(2);
    await Promise.all([large, small]);
    expect(done).toEqual({ large: LARGE_FROM, small: LARGE_FROM - 1 });
  });

  it('continues large work for a quarter of the time while requests do not end', async () => {
    const large = () => mapInSlices(Array.from({ length: LARGE_FROM }), workForAMillisecond);
    const aloneMs = await timeOf(large);
    let ended = false;
    setImmediate(function turn() {
      noteRequest();
      if (!ended) setImmediate(turn);
    });
    // Four times the time, and a margin for a machine that became busier meanwhile.
    expect(await timeOf(large)).toBeLessThan(8 * aloneMs);
    ended = true;
  });

  it('rejects with the error of the work', async () => {
    const failing = mapInSlices([1], () => {
      throw new Error('a defect');
    });
    await expect(failing).rejects.toThrow('a defect');
  });
});

/** Starts urgent work that runs until `end` is called. */
function startUrgent(): { urgent: Promise<void>; end: () => void } {
  let end: () => void = () => {};
  const urgent = runUrgent(() => new Promise<void>((resolve) => (end = resolve)));
  return { urgent, end };
}

async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

function workForAMillisecond(): void {
  workFor(1);
}

function workFor(ms: number): void {
  const startedMs = performance.now();
  while (performance.now() - startedMs <= ms);
}
