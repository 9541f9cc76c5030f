import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import type { Backlog, ConsumerOptions, ConsumerStatus, LogConsumer } from '../log.ts';
import { Gathering } from './gathering.ts';
import { PartitionReader } from './partition-reader.ts';
import type { RecentRecords } from './recent-records.ts';
import type { BoundsWatch } from './watch.ts';

export interface ConsumerContext {
  readonly pool: Pool;
  readonly logger: Logger;
  readonly watch: BoundsWatch;
  readonly recent: RecentRecords;
  /** Returns whether this process was busy lately. */
  readonly isBusy: () => boolean;
}

/** Milliseconds for which records are gathered before they are handled while the process is busy. */
const GATHER_MS = 50;

/**
 * Reads the partitions of one topic independently of each other. There is no consumer group,
 * because one process owns the log. If a second process reads the log too, `log_positions` prevents
 * records from being stored twice.
 */
export class EmbeddedConsumer implements LogConsumer {
  private readonly options: ConsumerOptions;
  private readonly context: ConsumerContext;
  private readonly gathering: Gathering;
  private readonly readers = new Map<number, PartitionReader>();
  private readonly unfollow: () => void;
  private closing: Promise<void> | undefined;

  constructor(options: ConsumerOptions, context: ConsumerContext) {
    this.options = options;
    this.context = context;
    this.gathering = new Gathering(context.isBusy, GATHER_MS);
    this.unfollow = context.watch.follow(options.topic, (partition) => this.open(partition));
  }

  private open(partition: number): void {
    if (this.closing !== undefined || this.readers.has(partition)) return;
    const { context, gathering, options: consumer } = this;
    this.readers.set(partition, new PartitionReader({ ...context, gathering, consumer, partition }));
  }

  status(): ConsumerStatus {
    const { watch } = this.context;
    const readers = this.closing === undefined ? [...this.readers] : [];
    return {
      joined: this.closing === undefined && watch.knows(this.options.topic),
      partitions: readers.map(([partition]) => partition).sort((a, b) => a - b),
      stopped: new Map(
        readers.flatMap(([partition, reader]) => {
          const reason = reader.stopped();
          return reason === undefined ? [] : [[partition, reason] as const];
        }),
      ),
      lag: readers.reduce((sum, [, reader]) => sum + reader.lag(), 0n),
      problem: watch.problem(),
    };
  }

  backlog(partition: number, from: bigint): Backlog | undefined {
    return this.readers.get(partition)?.backlog(from);
  }

  restart(partition: number): void {
    this.readers.get(partition)?.restart();
  }

  /**
   * Returns the first offset of the partition that is not handled; undefined while the consumer
   * does not know that offset.
   */
  handledTo(partition: number): bigint | undefined {
    return this.readers.get(partition)?.position();
  }

  close(): Promise<void> {
    this.closing ??= this.end();
    return this.closing;
  }

  private async end(): Promise<void> {
    this.unfollow();
    await Promise.all([...this.readers.values()].map((reader) => reader.close()));
  }
}
