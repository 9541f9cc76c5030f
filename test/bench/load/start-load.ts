import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { cpuMsOfTree } from '../../support/process-cpu.ts';
import type { LoadMessage, LoadOrder, LoadReport } from './generator.ts';

export interface LoadResult extends LoadReport {
  /** CPU milliseconds that the watched processes used in the measured time. */
  readonly cpuMs: number;
  /** The share of a core that the load generator used in the measured time. */
  readonly generatorShare: number;
}

/**
 * Runs a load in a process of its own. `pids`: processes whose CPU time is measured, with their
 * descendants. Rejects if an answer was not 2xx.
 */
export async function runLoad(order: LoadOrder, pids: readonly number[] = []): Promise<LoadResult> {
  const generator = fork(fileURLToPath(new URL('generator.js', import.meta.url)));
  const cpuMs = () =>
    [pids.reduce((sum, pid) => sum + cpuMsOfTree(pid), 0), cpuMsOfTree(generator.pid!)] as const;
  let before: readonly [number, number] = [0, 0];
  let after: readonly [number, number] = [0, 0];
  try {
    const report = await new Promise<LoadReport>((resolve, reject) => {
      generator.on('exit', () => reject(new Error('the load generator has ended')));
      generator.on('message', (message: LoadMessage) => {
        if (message === 'measuring') before = cpuMs();
        else if (message === 'measured') after = cpuMs();
        else resolve(message);
      });
      generator.send(order);
    });
    if (report.failure !== undefined) throw new Error(`a request was not answered 2xx: ${report.failure}`);
    return {
      ...report,
      cpuMs: after[0] - before[0],
      generatorShare: (after[1] - before[1]) / report.measuredMs,
    };
  } finally {
    generator.removeAllListeners('exit');
    generator.kill('SIGKILL');
  }
}
