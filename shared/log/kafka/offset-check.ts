import { AppError } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { TopicBounds } from './bounds-watch.ts';
import type { PartitionReader } from './partition-reader.ts';

/**
 * Consecutive checks without bounds that are tolerated before a partition counts as stopped, since
 * leader elections take a moment.
 */
const FAILED_CHECKS_MAX = 1;

/**
 * Compares the offsets of idle readers with the bounds of their partitions. A reader with an offset
 * out of bounds is restarted, because its topic was deleted or recreated. A partition whose bounds
 * cannot be read is reported as stopped.
 */
export class OffsetCheck {
  private readonly topic: string;
  private readonly logger: Logger;
  /** Readers whose partition's bounds were unknown in the last checks. */
  private readonly unanswered = new WeakMap<
    PartitionReader,
    { readonly checks: number; readonly reason: string }
  >();

  constructor(topic: string, logger: Logger) {
    this.topic = topic;
    this.logger = logger;
  }

  /**
   * Records the offsets of the readers before the request to the brokers. Returns the function that
   * takes the bounds.
   */
  begin(readers: ReadonlyMap<number, PartitionReader>): (bounds: TopicBounds) => void {
    const noted = [...readers].map(([partition, reader]) => ({
      partition,
      reader,
      offset: reader.fetchOffset(),
    }));
    return (bounds) => {
      for (const { partition, reader, offset } of noted) {
        // A reader that has moved since then may be ahead of these bounds.
        if (offset === undefined || reader.fetchOffset() !== offset) this.unanswered.delete(reader);
        else this.compare(partition, reader, offset, bounds);
      }
    };
  }

  /** Returns why the partition of this reader counts as stopped; undefined if it does not. */
  problemOf(reader: PartitionReader): string | undefined {
    const { checks, reason } = this.unanswered.get(reader) ?? { checks: 0, reason: undefined };
    return checks > FAILED_CHECKS_MAX ? reason : undefined;
  }

  private compare(partition: number, reader: PartitionReader, offset: bigint, bounds: TopicBounds): void {
    const found = bounds?.get(partition);
    if (found instanceof AppError) {
      this.noteUnanswered(partition, reader, found.message);
      return;
    }
    this.unanswered.delete(reader);
    if (!found || offset < found.earliest || offset > found.latest) reader.restart();
    else reader.noteEnd(found.latest);
  }

  private noteUnanswered(partition: number, reader: PartitionReader, reason: string): void {
    const checks = (this.unanswered.get(reader)?.checks ?? 0) + 1;
    this.unanswered.set(reader, { checks, reason });
    if (checks === FAILED_CHECKS_MAX + 1) {
      this.logger.warn({ topic: this.topic, partition, reason }, 'partition stopped');
    }
  }
}
