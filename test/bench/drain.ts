import { setTimeout as delay } from 'node:timers/promises';
import { cpuMsOfTree } from '../support/process-cpu.ts';
import type { RunLength } from './case.ts';

/** A backlog that a process works off. */
export interface Backlog {
  /** Number of items in the backlog. */
  readonly total: number;
  /** Resolves with the number of items that are done. */
  done(): Promise<number>;
  /** The process. */
  readonly pid: number;
}

export interface Drained {
  readonly perSecond: number;
  /** CPU milliseconds of the process per item. */
  readonly cpuMs: number;
}

/** Items of the first round, which only shows how many the next rounds need. */
export const TRIAL_ITEMS = 30_000;
/** Items of a round, as a multiple of what the round before did in the same time. */
const RESERVE = 1.2;
/** Parts of the backlog after which the measured time begins and ends at the latest. */
const BEGIN_SHARE = 0.3;
/** Near the end, some partitions or conversations are done before others. */
const END_SHARE = 0.95;
const POLL_MS = 20;

/** Returns how many items a round needs, if items are done at this rate. */
export function itemsFor({ warmupMs, measuredMs }: RunLength, perSecond: number): number {
  return Math.ceil(((warmupMs + measuredMs) / 1000) * perSecond * RESERVE);
}

/** Measures the items per second, from the warm-up after the first item on. */
export async function measureDrain(backlog: Backlog, length: RunLength): Promise<Drained> {
  const until = async (share: number, atMs: number) => {
    for (;;) {
      const done = await backlog.done();
      const nowMs = performance.now();
      if (done >= Math.max(1, share * backlog.total) || nowMs >= atMs) {
        return { done, atMs: nowMs, cpuMs: cpuMsOfTree(backlog.pid) };
      }
      await delay(POLL_MS);
    }
  };
  await until(0, Number.POSITIVE_INFINITY);
  const begin = await until(BEGIN_SHARE, performance.now() + length.warmupMs);
  const end = await until(END_SHARE, performance.now() + length.measuredMs);
  const done = end.done - begin.done;
  return {
    perSecond: (done * 1000) / (end.atMs - begin.atMs),
    cpuMs: (end.cpuMs - begin.cpuMs) / done,
  };
}
