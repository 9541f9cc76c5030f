import { sleep } from '../../async.ts';
import type { Clock } from '../../clock.ts';
import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import { earlierNow } from '../../postgres/times.ts';
import { readRetained } from './sql/log-partitions.ts';
import { deleteOldRecords } from './sql/log-records.ts';

export interface RetentionOptions {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly intervalMs: number;
  /**
   * Returns the first offset that some consumer has not handled; undefined if no consumer reads the
   * topic.
   */
  handledTo(topic: string, partition: number): bigint | undefined;
}

/** Maximum records per statement, so that publishers of the partition hardly wait for it. */
const RECORDS_MAX = 1000;

/**
 * Periodically deletes records that are older than their topic's retention and handled by every
 * consumer of the topic.
 */
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
    await sleep(options.intervalMs, { signal, ref: false });
    if (signal.aborted) return;
    try {
      await sweep(options, signal);
    } catch (error) {
      options.logger.warn({ reason: errorMessage(error) }, 'event log retention failed');
    }
  }
}

async function sweep(options: RetentionOptions, signal: AbortSignal): Promise<void> {
  const { pool, clock, handledTo } = options;
  const nowMs = await earlierNow(pool, clock);
  for (const { topic, partition, firstOffset, nextOffset, retentionMs } of await readRetained(pool)) {
    const to = handledTo(topic, partition) ?? nextOffset;
    if (to <= firstOffset) continue;
    const olderThan = new Date(nowMs - Number(retentionMs));
    let deleted = RECORDS_MAX;
    while (deleted === RECORDS_MAX && !signal.aborted) {
      deleted = await deleteOldRecords(pool, { topic, partition, to }, olderThan, RECORDS_MAX);
    }
  }
}
