/**
 * The event log as the rest of Sluice sees it: ordered partitions of records, acknowledged publishing, and consumer
 * groups. Two implementations stand behind it, kafka.ts and embedded.ts, and one conformance suite holds both to what
 * is said here.
 */

/**
 * Code of the AppError with which a handler says that its partition is not read from where it should be: its records are
 * not given again, but the start is asked for anew.
 */
export const POSITION_LOST = 'POSITION_LOST';

/** A record on its way into the log. The partition is the caller's choice (see partition.ts). */
export interface OutgoingRecord {
  readonly partition: number;
  readonly key: string;
  readonly value: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A record read from the log. */
export interface LogRecord {
  readonly offset: bigint;
  readonly key: string | null;
  /** Empty where the log holds a null value. */
  readonly value: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  /** When the log took it, milliseconds since the epoch. */
  readonly timestampMs: number;
}

export type PublishFailure =
  /** The publisher's memory bound is reached, or the tenant's part of it: nothing of the call was sent. */
  | 'queue-full'
  /** The record is larger than a record may be. */
  | 'too-large'
  /** The deadline passed before the log acknowledged. */
  | 'timeout'
  /** The log refused, or an earlier record of the same call and partition failed. */
  | 'unavailable'
  /** The publisher is closed. */
  | 'closed';

export type PublishOutcome =
  | { readonly ok: true; readonly partition: number; readonly offset: bigint }
  | {
      readonly ok: false;
      readonly reason: PublishFailure;
      /** True when the record may still be (or become) part of the log: only the same content may then be sent again under its id. */
      readonly outcomeUnknown: boolean;
    };

export interface PublisherOptions {
  /** Milliseconds from the call to its outcome, retries included. */
  readonly deadlineMs: number;
  /** Bytes of keys, values and headers that may wait or be on their way, over all partitions and fair between tenants. */
  readonly bufferedBytesMax: number;
}

export interface Publisher {
  /**
   * Resolves with one outcome a record, in order; never rejects. `ok` means that all in-sync replicas have the record
   * (embedded: Postgres committed it). Records of one call and partition keep their order, and once one of them fails
   * all later ones of that partition in the call fail too. A call belongs to the tenant of its first record's key: calls of
   * one tenant keep the order in which they were made, partition by partition; where calls of several wait, tenants take
   * turns. Of the memory no tenant holds more than it leaves free.
   */
  publish(topic: string, records: readonly OutgoingRecord[]): Promise<PublishOutcome[]>;
  /** Takes nothing new, sends all that was taken (within the deadline), then resolves. */
  close(): Promise<void>;
}

/** The offsets that a partition holds now: `earliest` is the first one there is, `latest` the one the next record gets. */
export interface PartitionBounds {
  readonly earliest: bigint;
  readonly latest: bigint;
}

/** Consecutive records of one partition, at least one. Offsets rise, but may have gaps. */
export interface LogBatch {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly LogRecord[];
  /** The offset that the next record of the partition gets, as known when the batch was read. */
  readonly latest: bigint;
  /** Aborted when the partition was taken away or the consumer closes: the handler should end soon. */
  readonly signal: AbortSignal;
}

export interface ConsumerOptions {
  readonly topic: string;
  readonly group: string;
  /** Records a batch at most. */
  readonly batchRecordsMax: number;
  /**
   * Milliseconds from the start of a partition's batch to its next one, unless that is full. At a steady trickle a batch
   * then carries what gathered meanwhile, instead of a record or two; after a quiet moment nothing waits. Default 0.
   */
  readonly batchIntervalMs?: number;
  /**
   * Called each time a partition is assigned, and whenever its start is in doubt: the offset to read from. The group's
   * own offset is never used to start. While it rejects, the partition is not read; it is asked again with backoff (5 s
   * at most), and `status()` carries the message.
   */
  startOffset(partition: number, bounds: PartitionBounds): Promise<bigint>;
  /**
   * Called for one batch of a partition at a time, partitions independent of each other. When it resolves, the group's
   * offset moves behind the batch. When it rejects, the same records come again after a backoff; with `POSITION_LOST`,
   * the start is asked for again after one, and `status()` carries the message until a batch was handled or there is none.
   */
  onBatch(batch: LogBatch): Promise<void>;
}

export interface ConsumerStatus {
  /** Member of its group with an assignment (which may be empty). */
  readonly joined: boolean;
  /** Partitions assigned now. */
  readonly partitions: readonly number[];
  /** Partitions that are not read, with the reason in words. */
  readonly stopped: ReadonlyMap<number, string>;
  /** Records between what was handled and the newest known, over all assigned partitions. */
  readonly lag: bigint;
  /** What is wrong with the connection, in words; undefined when nothing is. */
  readonly problem: string | undefined;
}

export interface LogConsumer {
  status(): ConsumerStatus;
  /** Asks for the start of a partition anew, once its handler has ended; nothing happens where it is not assigned. */
  askStart(partition: number): void;
  /** Stops fetching, aborts the batches' signals, waits for the handlers, commits what they did, and leaves the group. */
  close(): Promise<void>;
}

/** What a topic should be when it is created. */
export interface TopicSpec {
  readonly topic: string;
  readonly partitions: number;
  readonly replicas: number;
  readonly retentionMs: number;
  readonly segmentMs?: number;
}

/** What the log says of a topic that exists. */
export interface TopicDescription {
  readonly partitions: number;
  /** Milliseconds that records are kept; Infinity: for ever. */
  readonly retentionMs: number;
  /** How copies are kept; undefined where the log keeps none of its own (embedded: what Postgres has, it has). */
  readonly replication?: TopicReplication;
}

export interface TopicReplication {
  /** Copies of the partition that has fewest. */
  readonly replicas: number;
  /** Copies that must be there for a record to be acknowledged. */
  readonly inSyncMin: number;
  /** Whether a copy that lags may become the leader, which loses what it lacks. */
  readonly uncleanElections: boolean;
  /** Bytes of a batch of records at most. */
  readonly batchBytesMax: number;
  /** Bytes of a partition that are kept, whatever its retention; Infinity: all. */
  readonly retentionBytes: number;
  /** Whether of the records with one key only the last is kept. */
  readonly compacted: boolean;
  /** How the brokers store batches; `producer`: as they come. */
  readonly compression: string;
  /** Milliseconds after which a segment is closed at the latest: it is deleted whole, so the oldest records stay for so much longer. */
  readonly segmentMs: number;
}

/** Which records of a partition to read. */
export interface LogRange {
  readonly topic: string;
  readonly partition: number;
  /** The first offset wanted; where it is deleted, reading begins with the first one there is. */
  readonly from: bigint;
  /** Offsets from here on are left out. */
  readonly to: bigint;
}

/** Looks at a log without leaving a trace in it: no group, no offsets. For tools. */
export interface LogReader {
  /** What the partitions of the topics that exist hold. Rejects with a retryable AppError `LOG_UNAVAILABLE`. */
  bounds(topics: readonly string[]): Promise<Map<string, Map<number, PartitionBounds>>>;
  /**
   * Reads a partition page after page, in order. A page holds at least one record and at most some megabytes. Throws a
   * retryable AppError `LOG_UNAVAILABLE`.
   */
  pages(range: LogRange): AsyncIterable<readonly LogRecord[]>;
  close(): Promise<void>;
}

export interface EventLog {
  createPublisher(options: PublisherOptions): Publisher;
  /** Starts consuming at once; connection problems are retried for ever and shown by `status()`. */
  createConsumer(options: ConsumerOptions): LogConsumer;
  createReader(): LogReader;
  /** Creates the topics that are missing, waits until each can be written, and resolves with the names it created. */
  createTopics(specs: readonly TopicSpec[]): Promise<string[]>;
  /** Partition counts of the topics that exist. Rejects with a retryable AppError when the log cannot be asked: `LOG_UNAVAILABLE`, or `LOG_ACCESS_REFUSED` where that is a matter of settings. */
  partitionCounts(topics: readonly string[]): Promise<Map<string, number>>;
  /** What the topics that exist are like. Rejects like `partitionCounts`. */
  describeTopics(topics: readonly string[]): Promise<Map<string, TopicDescription>>;
  /** Removes what this log holds open besides its publishers and consumers. */
  close(): Promise<void>;
}
