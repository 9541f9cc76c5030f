import { AppError } from '../../errors.ts';
import type { Queryable } from '../../postgres/pool.ts';
import type { LogReader, PartitionBounds } from '../log.ts';
import { toLogRecord } from './partition-reader.ts';
import { readBounds } from './sql/log-partitions.ts';
import { readRecords } from './sql/log-records.ts';

const PAGE_RECORDS_MAX = 1000;
const PAGE_BYTES_MAX = 4 * 1_048_576;

/** Creates a reader, which runs only read statements on the log's tables. */
export function createEmbeddedReader(db: Queryable): LogReader {
  return {
    async bounds(topics) {
      const found = new Map<string, Map<number, PartitionBounds>>();
      for (const row of await queryLog(() => readBounds(db, topics))) {
        const partitions = found.get(row.topic) ?? new Map<number, PartitionBounds>();
        found.set(row.topic, partitions);
        partitions.set(row.partition, { earliest: row.firstOffset, latest: row.nextOffset });
      }
      return found;
    },
    async *pages({ topic, partition, from, to }) {
      while (from < to) {
        const recordsMax = Math.min(Number(to - from), PAGE_RECORDS_MAX);
        const range = { topic, partition, from, recordsMax, bytesMax: PAGE_BYTES_MAX };
        const stored = await queryLog(() => readRecords(db, range));
        const records = stored.map(toLogRecord).filter(({ offset }) => offset < to);
        if (records.length === 0) return;
        yield records;
        from = records.at(-1)!.offset + 1n;
      }
    },
    async close() {},
  };
}

/**
 * Runs a query on the log's tables. Rejects with a retryable AppError `LOG_UNAVAILABLE` if the
 * database does not answer.
 */
export async function queryLog<T>(question: () => Promise<T>): Promise<T> {
  try {
    return await question();
  } catch (error) {
    throw new AppError(
      'LOG_UNAVAILABLE',
      'the embedded event log is unavailable: its database does not answer',
      {
        retryable: true,
        cause: error,
      },
    );
  }
}
