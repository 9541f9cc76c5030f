import { headerList } from '../../shared/log/headers.ts';
import type {
  ConsumerOptions,
  EventLog,
  LogConsumer,
  LogRecord,
  OutgoingRecord,
  Publisher,
} from '../../shared/log/log.ts';

/** An in-memory log whose consumers read only when the test makes them read. */
export interface ScriptedLog extends EventLog {
  /** Adds a record to a partition, and returns its offset. */
  append(topic: string, record: OutgoingRecord): bigint;
  /** Returns the records of a topic's partition. */
  records(topic: string, partition: number): LogRecord[];
  /** Deletes the records below the offset, as retention does. */
  deleteBelow(topic: string, partition: number, offset: bigint): void;
  /** Forgets the partition, as a recreated topic does. */
  forget(topic: string, partition: number): void;
  /** Consumers in the order in which they were made. */
  readonly consumers: ScriptedConsumer[];
}

export interface ScriptedConsumer extends LogConsumer {
  /** Assigns a partition and delivers all of its records from the start offset in one batch. */
  read(partition: number): Promise<void>;
  /** Assigns a partition and resolves with its start offset, without reading. */
  take(partition: number): Promise<bigint>;
  /** Partitions whose restart was requested from outside. */
  readonly asked: number[];
  /**
   * Delivers the records from `from` to `to` (exclusive) without assigning the partition, as a
   * redelivery does.
   */
  deliver(partition: number, from: bigint, to?: bigint): Promise<void>;
}

interface Partition {
  earliest: bigint;
  records: LogRecord[];
}

export function createScriptedLog(nowMs: () => number): ScriptedLog {
  const partitions = new Map<string, Partition>();
  const at = (topic: string, partition: number): Partition => {
    const name = `${topic}/${partition}`;
    const found = partitions.get(name) ?? { earliest: 0n, records: [] };
    partitions.set(name, found);
    return found;
  };
  const latest = (topic: string, partition: number) => {
    const { earliest, records } = at(topic, partition);
    return (records.at(-1)?.offset ?? earliest - 1n) + 1n;
  };
  const log: ScriptedLog = {
    consumers: [],
    append(topic, { partition, key, value, headers }) {
      const offset = latest(topic, partition);
      at(topic, partition).records.push({
        offset,
        key: Buffer.from(key),
        value,
        headers: headerList(headers),
        timestampMs: nowMs(),
      });
      return offset;
    },
    records: (topic, partition) => at(topic, partition).records,
    deleteBelow(topic, partition, offset) {
      const found = at(topic, partition);
      found.earliest = offset;
      found.records = found.records.filter((record) => record.offset >= offset);
    },
    forget: (topic, partition) => {
      partitions.delete(`${topic}/${partition}`);
    },
    createPublisher: (): Publisher => ({
      publish: async (topic, records) =>
        records.map((record) => ({
          ok: true,
          partition: record.partition,
          offset: log.append(topic, record),
        })),
      close: async () => {},
    }),
    createConsumer(options: ConsumerOptions) {
      const consumer = createConsumer(options);
      log.consumers.push(consumer);
      return consumer;
    },
    createTopics: async () => [],
    partitionCounts: async () => new Map(),
    describeTopics: async () => new Map(),
    createReader() {
      throw new Error('the scripted log has no reader');
    },
    close: async () => {},
  };

  function createConsumer({ topic, startOffset, onBatch }: ConsumerOptions): ScriptedConsumer {
    const closing = new AbortController();
    const running = new Set<Promise<void>>();
    const taken = new Set<number>();
    const consumer: ScriptedConsumer = {
      asked: [],
      restart: (partition) => void consumer.asked.push(partition),
      async take(partition) {
        taken.add(partition);
        return startOffset(partition, {
          earliest: at(topic, partition).earliest,
          latest: latest(topic, partition),
        });
      },
      async read(partition) {
        await consumer.deliver(partition, await consumer.take(partition));
      },
      async deliver(partition, from, to = latest(topic, partition)) {
        const records = at(topic, partition).records.filter(({ offset }) => offset >= from && offset < to);
        if (records.length === 0) return;
        const handled = onBatch({
          topic,
          partition,
          records,
          latest: latest(topic, partition),
          signal: closing.signal,
        });
        const settled = handled.catch(() => {});
        running.add(settled);
        await handled.finally(() => running.delete(settled));
      },
      status: () => ({
        joined: true,
        partitions: [...taken],
        stopped: new Map(),
        lag: 0n,
        problem: undefined,
      }),
      async close() {
        closing.abort();
        await Promise.all(running);
      },
    };
    return consumer;
  }

  return log;
}
