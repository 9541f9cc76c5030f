import { topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import type { EventLog, LogConsumer, PartitionBounds } from '../../shared/log/log.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import { ErasedIds } from './erased-ids.ts';
import { classifyFault } from './faults.ts';
import { reportLag } from './lag-metrics.ts';
import { TopicMetrics } from './metrics.ts';
import { PartitionConsumer, type PartitionDeps } from './partition-consumer.ts';
import { PlainInserts } from './plain-inserts.ts';
import { findStart, type StoredPosition } from './position-fencing.ts';
import { Rounds } from './rounds.ts';
import { type TopicLag, topicLag } from './topic-lag.ts';
import { type TopicStatus, topicStatus } from './topic-status.ts';

/** What belongs to one topic. */
type OfTopic = 'topic' | 'plainInserts' | 'erasedIds' | 'metrics';

export interface ConsumeDeps extends Omit<PartitionDeps, OfTopic> {
  readonly log: Pick<EventLog, 'createConsumer'>;
  /** Prefix of the names of topics and consumer groups. */
  readonly prefix: string;
}

export interface TopicConsumer {
  readonly topic: string;
  status(): TopicStatus;
  /** Returns the lag of this process's partitions, as known in memory. */
  lag(): TopicLag;
  /**
   * Returns the positions that the workers of idle partitions last stored or read, by partition.
   */
  storedPositions(): Map<number, StoredPosition>;
  /** Restarts the partition from its stored position. */
  restart(partition: number): void;
  /** Completes the batches in progress, and leaves the group. */
  close(): Promise<void>;
}

/**
 * Consumes one kind's topic. Stores its records exactly once and in order; records that cannot be
 * stored become dead letters. Every partition starts at its position in the database, regardless of
 * the group's committed offset.
 */
export function startConsuming<Row>(deps: ConsumeDeps, kind: RecordKind<Row>): TopicConsumer {
  return new KindConsumer(deps, kind);
}

class KindConsumer<Row> implements TopicConsumer {
  readonly topic: string;
  readonly #deps: ConsumeDeps & Pick<PartitionDeps, OfTopic>;
  readonly #kind: RecordKind<Row>;
  readonly #consumer: LogConsumer;
  readonly #rounds: Rounds<Row>;
  readonly #stopReporting: () => void;
  readonly #partitions = new Map<number, PartitionConsumer<Row>>();

  constructor(deps: ConsumeDeps, kind: RecordKind<Row>) {
    this.topic = topicOf(deps.prefix, kind.kind);
    this.#deps = {
      ...deps,
      topic: this.topic,
      plainInserts: new PlainInserts(),
      erasedIds: new ErasedIds(),
      metrics: new TopicMetrics(this.topic),
    };
    this.#kind = kind;
    this.#rounds = new Rounds(this.#deps, kind);
    this.#consumer = deps.log.createConsumer({
      topic: this.topic,
      group: this.topic,
      batchRecordsMax: deps.batchRecordsMax,
      startOffset: (partition, bounds) => this.#startPartition(partition, bounds),
      onBatch: (batch) => this.#partitions.get(batch.partition)!.handle(batch),
    });
    this.#stopReporting = reportLag(this);
  }

  status(): TopicStatus {
    return topicStatus(this.topic, this.#consumer.status(), this.#partitions, this.#deps.clock.nowMs());
  }

  lag(): TopicLag {
    return topicLag(this.#consumer, this.#partitions, this.#deps.clock.nowMs());
  }

  storedPositions(): Map<number, StoredPosition> {
    const { partitions, stopped } = this.#consumer.status();
    const positions = new Map<number, StoredPosition>();
    for (const partition of partitions) {
      const position = stopped.has(partition) ? undefined : this.#partitions.get(partition)?.storedPosition();
      if (position) positions.set(partition, position);
    }
    return positions;
  }

  restart(partition: number): void {
    this.#consumer.restart(partition);
  }

  async close(): Promise<void> {
    this.#stopReporting();
    await this.#consumer.close();
    await Promise.all([...this.#partitions.values()].map((partition) => partition.release()));
  }

  /** Resolves with the offset at which reading the partition starts. */
  async #startPartition(partition: number, bounds: PartitionBounds): Promise<bigint> {
    const { topic } = this;
    try {
      const { offset, ...position } = await findStart(this.#deps.pool, { topic, partition }, bounds);
      await this.#partitions.get(partition)?.release();
      this.#partitions.set(
        partition,
        new PartitionConsumer(this.#deps, this.#kind, this.#rounds, partition, position),
      );
      return offset;
    } catch (error) {
      // The consumer's status shows the message to operators, so it must not be a message of the
      // driver.
      const { text, kind: fault } = classifyFault(error);
      if (fault === 'stop') throw error;
      throw new AppError('START_UNKNOWN', text, { retryable: true, cause: error });
    }
  }
}
