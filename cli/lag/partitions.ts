import type { Clock } from '../../shared/clock.ts';
import { AppError } from '../../shared/errors.ts';
import type { LogReader } from '../../shared/log/log.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { listPositions } from '../sql/log-positions.ts';

/** The lag of one partition. Offsets are text, as they can exceed the integers of JSON parsers. */
export interface PartitionLag {
  readonly topic: string;
  readonly partition: number;
  readonly end: string;
  readonly stored: string;
  readonly lag: number;
  /** Age of the first record that is not stored. */
  readonly oldestSeconds: number | null;
  /** Why the partition is stalled, if the log does not match the stored position. */
  readonly problem: string | null;
}

/** Reads the lag of each partition of the topics. Throws AppError `TOPIC_MISSING`. */
export async function readLag(
  { reader, db, clock }: { readonly reader: LogReader; readonly db: Queryable; readonly clock: Clock },
  topics: readonly string[],
): Promise<PartitionLag[]> {
  // Positions are read before bounds, so that a concurrent worker is never ahead of the log.
  const positions = await listPositions(db, topics);
  const bounds = await reader.bounds(topics);
  const missing = topics.filter((topic) => !bounds.has(topic));
  if (missing.length > 0) {
    const wasStored = positions.some(({ topic }) => missing.includes(topic));
    throw new AppError(
      'TOPIC_MISSING',
      `there is no topic ${missing.join(', ')}: ${
        wasStored
          ? 'it was deleted, and its records that were not stored are lost. Run `./sluice topics create`, then `./sluice topics accept`'
          : 'run `./sluice topics create`'
      }`,
    );
  }
  const stored = new Map(positions.map((row) => [`${row.topic}/${row.partition}`, row.nextOffset]));
  const lags: PartitionLag[] = [];
  for (const [topic, partitions] of bounds) {
    for (const [partition, { earliest, latest }] of [...partitions].sort(([a], [b]) => a - b)) {
      const next = stored.get(`${topic}/${partition}`) ?? 0n;
      const problem = problemOf(next, { earliest, latest });
      let from = next;
      if (from < earliest) from = earliest;
      const lag = latest > next ? Number(latest - next) : 0;
      const oldestMs =
        lag === 0 ? undefined : await firstTimestampMs(reader, { topic, partition, from, to: from + 1n });
      lags.push({
        topic,
        partition,
        end: latest.toString(),
        stored: next.toString(),
        lag,
        oldestSeconds:
          oldestMs === undefined ? null : Math.max(0, Math.round((clock.nowMs() - oldestMs) / 1000)),
        problem,
      });
    }
  }
  return lags;
}

/**
 * Returns why the workers cannot read a partition; null if they can. Uses the same rules as the
 * workers.
 */
function problemOf(next: bigint, { earliest, latest }: { earliest: bigint; latest: bigint }): string | null {
  if (next > latest) return 'the log ends before the stored position';
  if (next < earliest) return `${earliest - next} records were lost before they were stored`;
  return null;
}

async function firstTimestampMs(
  reader: LogReader,
  range: Parameters<LogReader['pages']>[0],
): Promise<number | undefined> {
  for await (const page of reader.pages(range)) return page[0]?.timestampMs;
  return undefined;
}
