import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import type { DispatcherOptions } from './options.ts';
import { findQueuedWeeks } from './sql/queue.ts';

/** Creates the time partitions that a dispatch of this endpoint may lack. Never rejects. */
export async function createMissingPartitions(
  { pool, logger, ensurePartitions }: DispatcherOptions,
  id: EndpointId,
  nowMs: number,
): Promise<void> {
  try {
    // A finished delivery is stored in the week of its creation, whose partition may have been
    // dropped meanwhile.
    for (const createdMs of await findQueuedWeeks(pool, id)) await ensurePartitions(createdMs);
    // Attempts are stored in the current week.
    await ensurePartitions(nowMs);
  } catch (error) {
    logger.warn({ err: error }, 'webhook time partitions not created');
  }
}
