import type { EventLog, LogConsumer, LogRecord, PartitionBounds } from '../../shared/log/log.ts';

/** The records that a collecting consumer received, by partition, in order of arrival. */
export interface Collector {
  readonly consumer: LogConsumer;
  readonly byPartition: ReadonlyMap<number, readonly LogRecord[]>;
  count(): number;
}

/**
 * Reads a topic from `startOffset` (default: the first record), and keeps all records. A partition
 * that is assigned again continues after the last record kept.
 */
export function collect(
  log: EventLog,
  topic: string,
  group: string,
  startOffset: (partition: number, bounds: PartitionBounds) => bigint = (_, bounds) => bounds.earliest,
): Collector {
  const byPartition = new Map<number, LogRecord[]>();
  let count = 0;
  const consumer = log.createConsumer({
    topic,
    group,
    batchRecordsMax: 500,
    async startOffset(partition, bounds) {
      const last = byPartition.get(partition)?.at(-1);
      return last === undefined ? startOffset(partition, bounds) : last.offset + 1n;
    },
    async onBatch({ partition, records }) {
      const collected = byPartition.get(partition) ?? [];
      byPartition.set(partition, collected);
      collected.push(...records);
      count += records.length;
    },
  });
  return { consumer, byPartition, count: () => count };
}
