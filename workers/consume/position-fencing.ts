import { AppError } from '../../shared/errors.ts';
import { fingerprint } from '../../shared/log/fingerprint.ts';
import { type LogRecord, type PartitionBounds, POSITION_LOST } from '../../shared/log/log.ts';
import type { PositionRow } from '../../shared/postgres/log-positions.ts';
import { loadTopicLayouts } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { loadPosition, type PartitionKey } from '../sql/log-positions.ts';

/**
 * Fencing: the position of a partition in the database decides what may be stored. The stored
 * position stops a worker that was frozen while another worker took over, or that reads a replaced
 * log.
 */

const ACCEPT_LOG = 'if the earlier log is lost for good, run `./sluice topics accept`';

/** The position up to which a partition is stored. */
export interface StoredPosition {
  readonly generation: number;
  readonly nextOffset: bigint;
}

/** Records of a partition before they are stored. */
export interface FencedRecords extends PartitionKey {
  readonly generation: number;
  readonly candidates: readonly { readonly log: LogRecord }[];
  /** First offset of the batch. */
  readonly batchFrom: bigint;
  /** The end of the partition when the batch was read. */
  readonly latest: bigint;
}

/**
 * Resolves with the stored position of a partition, and the offset at which reading starts. That
 * offset is one record before the position, so that the first batch shows whether the log is still
 * the same. Rejects with an AppError `TOPIC_UNKNOWN` (retryable), or `POSITION_LOST` if reading
 * from there would skip records.
 */
export async function findStart(
  pool: Pool,
  key: PartitionKey,
  { earliest, latest }: PartitionBounds,
): Promise<StoredPosition & { readonly offset: bigint }> {
  const registered = (await loadTopicLayouts(pool, key.topic)).get(key.topic);
  if (!registered) {
    throw new AppError('TOPIC_UNKNOWN', `${key.topic} is not registered: run \`./sluice topics create\``, {
      retryable: true,
    });
  }
  const { generation } = registered;
  const position = await loadPosition(pool, key);
  const nextOffset = position?.nextOffset ?? 0n;
  if (position && position.generation !== generation) {
    lost(key, `its position is of generation ${position.generation}, not ${generation}; ${ACCEPT_LOG}`);
  }
  if (earliest > nextOffset) {
    lost(
      key,
      `records ${nextOffset} to ${earliest - 1n} are gone from the log and were not stored; ${ACCEPT_LOG}`,
    );
  }
  if (latest < nextOffset) lost(key, logEnds(latest, nextOffset));
  return { generation, nextOffset, offset: earliest < nextOffset ? nextOffset - 1n : nextOffset };
}

/**
 * Throws an AppError `POSITION_LOST` if storing the records would skip records that were never
 * stored, or mix records of two logs. Called in the batch's transaction, with the position locked.
 * The position is undefined if it was deleted.
 */
export function checkPosition(
  position: PositionRow | undefined,
  records: FencedRecords,
): asserts position is PositionRow {
  if (!position) lost(records, 'its position was deleted');
  const { nextOffset, lastId } = position;
  if (position.generation !== records.generation) {
    lost(records, `its position is of generation ${position.generation}, not ${records.generation}`);
  }
  if (records.batchFrom > nextOffset) {
    lost(records, `it was read up to ${records.batchFrom}, but is stored up to ${nextOffset} only`);
  }
  if (records.latest < nextOffset) lost(records, logEnds(records.latest, nextOffset));
  const previous = records.candidates.find(({ log }) => log.offset === nextOffset - 1n);
  if (previous && lastId !== null && fingerprint(previous.log) !== lastId) {
    lost(
      records,
      `record ${nextOffset - 1n} differs from the stored record: this is another log; ${ACCEPT_LOG}`,
    );
  }
}

function logEnds(latest: bigint, nextOffset: bigint): string {
  return `the log ends at ${latest}, but records up to ${nextOffset} were stored; ${ACCEPT_LOG}`;
}

function lost({ topic, partition }: PartitionKey, reason: string): never {
  throw new AppError(POSITION_LOST, `${topic}, partition ${partition}: ${reason}`);
}
