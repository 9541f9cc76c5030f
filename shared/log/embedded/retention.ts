import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../clock.ts';
import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import { earlierNow } from '../../postgres/earlier-now.ts';
import type { Pool } from '../../postgres/pool.ts';
import { deleteDeadMembers, deleteOldRecords, readRetained } from './sql/retention.ts';

/** Options of {@link startRetention}. */
export interface RetentionOptions {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly intervalMs: number;
}

/** Records a statement: few enough that publishers of the partition hardly wait for it. */
const RECORDS_MAX = 1000;
const DEAD_MEMBER_MS = 24 * 60 * 60 * 1000;

/** Deletes, again and again, what is older than its topic's retention and handled by every group that reads the topic. */
export function startRetention(options: RetentionOptions): { close(): Promise<void> } {
  const ending = new AbortController();
  const running = repeat(options, ending.signal);
  return {
    async close() {
      ending.abort();
      await running;
    },
  };
}

async function repeat(options: RetentionOptions, signal: AbortSignal): Promise<void> {
  for (;;) {
    await delay(options.intervalMs, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    try {
      await sweep(options, signal);
    } catch (error) {
      options.logger.warn(
        { reason: errorMessage(error) },
        'old records of the event log could not be deleted',
      );
    }
  }
}

async function sweep({ pool, clock }: RetentionOptions, signal: AbortSignal): Promise<void> {
  await deleteDeadMembers(pool, new Date(clock.nowMs() - DEAD_MEMBER_MS));
  const nowMs = await earlierNow(pool, clock);
  for (const partition of await readRetained(pool)) {
    const olderThan = new Date(nowMs - Number(partition.retention_ms));
    let deleted = RECORDS_MAX;
    while (deleted === RECORDS_MAX && !signal.aborted) {
      deleted = await deleteOldRecords(pool, partition, olderThan, RECORDS_MAX);
    }
  }
}
