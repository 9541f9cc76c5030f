import { sleep } from '../../async.ts';

/** Milliseconds over which the use of the process is measured. */
const WINDOW_MS = 50;
/** Share of the time from which the process counts as busy. */
const BUSY_SHARE = 0.6;

/**
 * Returns a function that reports whether this process was busy lately: for a large part of the
 * time since the last measurement, which was at least some milliseconds ago.
 */
export function createBusyMeter(
  utilization: typeof performance.eventLoopUtilization = performance.eventLoopUtilization,
  nowMs: () => number = () => performance.now(),
): () => boolean {
  let last = utilization();
  let measuredMs = nowMs();
  let isBusy = false;
  return () => {
    if (nowMs() - measuredMs >= WINDOW_MS) {
      const current = utilization();
      isBusy = utilization(current, last).utilization >= BUSY_SHARE;
      last = current;
      measuredMs = nowMs();
    }
    return isBusy;
  };
}

/**
 * Gathers work while this process is busy, because larger batches cost less per record. All callers
 * that wait are released together. Work is not delayed while the process has time.
 */
export class Gathering {
  private readonly isBusy: () => boolean;
  private readonly waitMs: number;
  private release: Promise<void> | undefined;

  constructor(isBusy: () => boolean, waitMs: number) {
    this.isBusy = isBusy;
    this.waitMs = waitMs;
  }

  async turn(): Promise<void> {
    if (!this.isBusy()) return;
    this.release ??= this.pause();
    await this.release;
  }

  private async pause(): Promise<void> {
    await sleep(this.waitMs);
    this.release = undefined;
  }
}
