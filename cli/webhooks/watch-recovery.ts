import { sleep } from '../../shared/async.ts';
import { findRecoveries, type Recovery } from '../../shared/postgres/deliveries/recoveries.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { createProgressBar, type ProgressBar } from '../send/progress-bar.ts';

const POLL_MS = 250;

/**
 * Shows the progress of a recovery until it ends or the command is interrupted, and resolves with the
 * last state that was read. The recovery goes on without this command.
 */
export async function watchRecovery(context: CommandContext, pool: Pool, first: Recovery): Promise<Recovery> {
  const stopped = new AbortController();
  void Promise.race([context.untilInterrupted(), context.outputClosed]).then(() => stopped.abort());
  let recovery = first;
  let bar: ProgressBar | undefined;
  let done = 0;
  let reason: string | null = null;
  try {
    while (recovery.state === 'running' && !stopped.signal.aborted) {
      await sleep(POLL_MS, { signal: stopped.signal });
      recovery = (await findRecoveries(pool, [recovery.tenantId], recovery.jobId))[0] ?? recovery;
      const { total, queued, skipped } = recovery;
      if (total === null) continue;
      bar ??= createProgressBar(context.stderr, {
        name: 'deliveries',
        total,
        visible: true,
        words: ['queued', 'skipped'],
      });
      bar.bytesRead(queued + skipped - done);
      done = queued + skipped;
      bar.counts({ settled: queued, refused: skipped });
      if (recovery.reason !== null && recovery.reason !== reason) {
        bar.say(`sluice: the job ${recovery.reason}`);
      }
      reason = recovery.reason;
    }
  } finally {
    bar?.stop();
  }
  return recovery;
}
