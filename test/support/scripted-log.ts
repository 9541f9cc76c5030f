import { backlogFrom } from '../../shared/log/backlog.ts';
import { headerList } from '../../shared/log/headers.ts';
import type {
  Backlog,
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
  /** Takes a partition away, as a rebalance does. */
  revoke(partition: number): void;
  /** Partitions whose restart was requested from outside. */
  readonly asked: number[];
  /**
   * Delivers the records from `from` to `to` (exclusive) without assigning the partition, as a
   * redelivery does. The partition is revoked when the signal is aborted.
   */
  deliver(partition: number, from: bigint, to?: bigint, signal?: AbortSignal): Promise<void>;
}

/** Creates a log. `nowMs` gives the records their times. */
export function createScriptedLog(nowMs: () => number): ScriptedLog {
  const partitions = new Partitions();
  const log: ScriptedLog = {
    consumers: [],
    append(topic, { partition, key, value, headers }) {
      const offset = partitions.latest(topic, partition);
      partitions.at(topic, partition).records.push({
        offset,
        key: Buffer.from(key),
        value,
        headers: headerList(headers),
        timestampMs: nowMs(),
      });
      return offset;
    },
    records: (topic, partition) => partitions.at(topic, partition).records,
    deleteBelow(topic, partition, offset) {
      const found = partitions.at(topic, partition);
      found.earliest = offset;
      found.records = found.records.filter((record) => record.offset >= offset);
    },
    forget: (topic, partition) => partitions.forget(topic, partition),
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
      const consumer = new PartitionConsumer(partitions, options);
      log.consumers.push(consumer);
      return consumer;
    },
    createTopics: async () => [],
    partitionCounts: async () => new Map(),
    describeTopics: async () => new Map(),
    groupMembers: async () => undefined,
    createReader() {
      throw new Error('the scripted log has no reader');
    },
    close: async () => {},
  };
  return log;
}

interface Partition {
  earliest: bigint;
  records: LogRecord[];
}

/** The records of all topics. A partition exists as soon as it is named. */
class Partitions {
  readonly #byName = new Map<string, Partition>();

  at(topic: string, partition: number): Partition {
    const name = `${topic}/${partition}`;
    const found = this.#byName.get(name) ?? { earliest: 0n, records: [] };
    this.#byName.set(name, found);
    return found;
  }

  /** Returns the offset of the next record. */
  latest(topic: string, partition: number): bigint {
    const { earliest, records } = this.at(topic, partition);
    return (records.at(-1)?.offset ?? earliest - 1n) + 1n;
  }

  forget(topic: string, partition: number): void {
    this.#byName.delete(`${topic}/${partition}`);
  }
}

class PartitionConsumer implements ScriptedConsumer {
  readonly asked: number[] = [];
  readonly #partitions: Partitions;
  readonly #options: ConsumerOptions;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #taken = new Set<number>();

  constructor(partitions: Partitions, options: ConsumerOptions) {
    this.#partitions = partitions;
    this.#options = options;
  }

  restart(partition: number): void {
    this.asked.push(partition);
  }

  async take(partition: number): Promise<bigint> {
    const { topic, startOffset } = this.#options;
    this.#taken.add(partition);
    return startOffset(partition, {
      earliest: this.#partitions.at(topic, partition).earliest,
      latest: this.#partitions.latest(topic, partition),
    });
  }

  revoke(partition: number): void {
    this.#taken.delete(partition);
  }

  async read(partition: number): Promise<void> {
    await this.deliver(partition, await this.take(partition));
  }

  async deliver(
    partition: number,
    from: bigint,
    to?: bigint,
    signal: AbortSignal = this.#closing.signal,
  ): Promise<void> {
    const { topic, onBatch } = this.#options;
    const latest = this.#partitions.latest(topic, partition);
    const records = this.#partitions
      .at(topic, partition)
      .records.filter(({ offset }) => offset >= from && offset < (to ?? latest));
    if (records.length === 0) return;
    const handled = onBatch({ topic, partition, records, latest, signal });
    const settled = handled.catch(() => {});
    this.#running.add(settled);
    await handled.finally(() => this.#running.delete(settled));
  }

  backlog(partition: number, from: bigint): Backlog | undefined {
    if (!this.#taken.has(partition)) return undefined;
    const { topic } = this.#options;
    const { records } = this.#partitions.at(topic, partition);
    return backlogFrom(from, this.#partitions.latest(topic, partition), [records], 0);
  }

  status(): ReturnType<LogConsumer['status']> {
    return {
      joined: true,
      partitions: [...this.#taken],
      stopped: new Map(),
      lag: 0n,
      problem: undefined,
    };
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#running);
  }
}
