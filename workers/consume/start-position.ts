import { AppError } from '../../shared/errors.ts';
import { type PartitionBounds, POSITION_LOST } from '../../shared/log/log.ts';
import { loadTopicLayouts } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { loadPosition, type PartitionKey } from '../sql/log-positions.ts';
import type { StoredPosition } from './partition-consumer.ts';
import { ACCEPT_LOG } from './store-batch.ts';

/**
 * Resolves with the position up to which a partition is stored, and the offset to read it from: one
 * record before the position, so that the first batch shows whether the log is still the same.
 * Rejects with an AppError `TOPIC_UNKNOWN` (retryable), or `POSITION_LOST` where reading from there
 * would skip records.
 */
export async function findStart(
  pool: Pool,
  key: PartitionKey,
  { earliest, latest }: PartitionBounds,
): Promise<StoredPosition & { readonly offset: bigint }> {
  const { topic, partition } = key;
  const registered = (await loadTopicLayouts(pool, topic)).get(topic);
  if (!registered) {
    throw new AppError('TOPIC_UNKNOWN', `${topic} is not registered: run \`npx sluice topics create\``, {
      retryable: true,
    });
  }
  const { generation } = registered;
  const position = await loadPosition(pool, key);
  const nextOffset = position?.nextOffset ?? 0n;
  const lost = (reason: string) =>
    new AppError(POSITION_LOST, `${topic}, partition ${partition}: ${reason}; ${ACCEPT_LOG}`);
  if (position && position.generation !== generation) {
    throw lost(`its position is of generation ${position.generation}, not ${generation}`);
  }
  if (earliest > nextOffset) {
    throw lost(`records ${nextOffset} to ${earliest - 1n} are gone from the log and were not stored`);
  }
  if (latest < nextOffset) {
    throw lost(`the log ends at ${latest}, but records up to ${nextOffset} were stored`);
  }
  return { generation, nextOffset, offset: earliest < nextOffset ? nextOffset - 1n : nextOffset };
}
