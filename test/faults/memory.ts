import { memoryOf } from '../support/process-memory.ts';
import type { Laboratory } from './laboratory.ts';

/** The resident memory of one process during a run. */
export interface MemorySeries {
  readonly name: string;
  /** Pairs of seconds since the start of the run and MiB, in order. */
  readonly points: (readonly [seconds: number, mebibytes: number])[];
}

export interface MemoryWatch {
  readonly series: ReadonlyMap<string, MemorySeries>;
  stop(): void;
}

const LOOK_EVERY_MS = 2_000;
const MEBIBYTE = 1024 * 1024;

/**
 * Samples the memory of the product's processes every 2 s. A process that is down has no sample.
 */
export function watchMemory(lab: Laboratory): MemoryWatch {
  const startedMs = performance.now();
  const series = new Map<string, MemorySeries>(lab.parts.map(({ name }) => [name, { name, points: [] }]));
  const look = () => {
    for (const { name, pid } of lab.parts) {
      try {
        const seconds = (performance.now() - startedMs) / 1000;
        series.get(name)!.points.push([seconds, memoryOf(pid!) / MEBIBYTE]);
      } catch {
        // The process is down.
      }
    }
  };
  look();
  const timer = setInterval(look, LOOK_EVERY_MS);
  return { series, stop: () => clearInterval(timer) };
}

/**
 * Returns each process's maximum in the second and in the last quarter of the run, in MiB. Their
 * ratio shows memory growth. The first quarter is left out because caches fill during it.
 */
export function growthOf({ series }: MemoryWatch): { name: string; early: number; late: number }[] {
  return [...series.values()].map(({ name, points }) => {
    const endS = points.at(-1)?.[0] ?? 0;
    const most = (fromS: number, toS: number) =>
      Math.max(0, ...points.filter(([s]) => s >= fromS && s <= toS).map(([, mebibytes]) => mebibytes));
    return { name, early: most(endS / 4, endS / 2), late: most((endS * 3) / 4, endS) };
  });
}
