/**
 * The interface of the event log: ordered partitions of records, acknowledged publishing, and
 * consumers (on Kafka in groups). The implementations are kafka/ and embedded/. One conformance
 * suite tests both against the comments in this file.
 */

/**
 * Code of the AppError with which a handler reports that its partition is read from the wrong
 * offset. The batch's records are not redelivered; the consumer asks for the start offset again.
 */
export const POSITION_LOST = 'POSITION_LOST';

/** A header as stored in the log. */
export interface LogHeader {
  readonly name: string;
  /** Any bytes; null if the log contains a null value. */
  readonly value: Buffer | null;
}

/**
 * A record to publish; not changed after the call. The caller chooses the partition (see
 * partition.ts).
 */
export interface OutgoingRecord {
  readonly partition: number;
  /** Any bytes, or text, which is sent as UTF-8. */
  readonly key: string | Buffer;
  readonly value: Buffer;
  /** A list if a name is repeated or a value is not text. */
  readonly headers?: Readonly<Record<string, string>> | readonly LogHeader[];
}

/** A record read from the log. */
export interface LogRecord {
  readonly offset: bigint;
  /** Any bytes; null if the log contains a null key. */
  readonly key: Buffer | null;
  /** Empty if the log contains a null value. */
  readonly value: Buffer;
  /** A name may be repeated. */
  readonly headers: readonly LogHeader[];
  /** When the log accepted the record, in milliseconds since the Unix epoch. */
  readonly timestampMs: number;
}

export type PublishFailure =
  /**
   * The publisher's memory limit, or the tenant's share of it, is reached: nothing of the call was
   * sent.
   */
  | 'queue-full'
  /** The record exceeds the maximum size of a record. */
  | 'too-large'
  /** The deadline passed before the log acknowledged the record. */
  | 'timeout'
  /** The log refused the record, or an earlier record of the same call and partition failed. */
  | 'unavailable'
  /** The publisher is closed. */
  | 'closed';

export type PublishOutcome =
  | { readonly ok: true; readonly partition: number; readonly offset: bigint }
  | {
      readonly ok: false;
      readonly reason: PublishFailure;
      /**
       * True if the record may be in the log, or may still be appended: its id may be reused only
       * with the same content.
       */
      readonly outcomeUnknown: boolean;
    };

export interface PublisherOptions {
  /** Milliseconds from the call to its outcome, retries included. */
  readonly deadlineMs: number;
  /**
   * Maximum bytes of keys, values and headers that are queued or in flight, over all partitions.
   * Tenants get fair shares.
   */
  readonly bufferedBytesMax: number;
}

export interface Publisher {
  /**
   * Resolves with one outcome per record, in order; never rejects. `ok` means that all in-sync
   * replicas have the record (embedded: Postgres committed it). Records of one call and partition
   * keep their order; once one of them fails, all later ones of that partition in the call fail
   * too. A call belongs to the tenant of its first record's key. Calls of one tenant keep their
   * order in each partition. If calls of several tenants wait, tenants are served round-robin. No
   * tenant holds more memory than it leaves free.
   */
  publish(topic: string, records: readonly OutgoingRecord[]): Promise<PublishOutcome[]>;
  /** Refuses new calls, sends the records of earlier calls within their deadline, then resolves. */
  close(): Promise<void>;
}

/**
 * The offsets in a partition: `earliest` is that of the first stored record, `latest` that of the
 * next record.
 */
export interface PartitionBounds {
  readonly earliest: bigint;
  readonly latest: bigint;
}

/** Consecutive records of one partition, at least one. Offsets increase, but may have gaps. */
export interface LogBatch {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly LogRecord[];
  /** The offset that the next record of the partition gets, as known when the batch was read. */
  readonly latest: bigint;
  /**
   * Aborted when the partition was taken away or the consumer closes: the handler should end soon.
   */
  readonly signal: AbortSignal;
}

export interface ConsumerOptions {
  readonly topic: string;
  readonly group: string;
  /** Maximum records per batch. */
  readonly batchRecordsMax: number;
  /**
   * Returns the offset to read from. Called each time a partition is assigned or restarted, because
   * a group's committed offset is never used. While it rejects, the partition is not read,
   * `status()` has the message, and the call is retried with backoff (5 s at most).
   */
  startOffset(partition: number, bounds: PartitionBounds): Promise<bigint>;
  /**
   * Handles a batch. Called for one batch per partition at a time; partitions are independent of
   * each other. When the handler resolves, the batch counts as handled (on Kafka, the group's
   * offset is committed). When it rejects, the same records are redelivered after a backoff. When
   * it rejects with `POSITION_LOST`, `startOffset` is called again after a backoff. `status()` then
   * has the message until a batch is handled or no record is left.
   */
  onBatch(batch: LogBatch): Promise<void>;
}

export interface ConsumerStatus {
  /**
   * Whether the consumer is a member of its group with an assignment, which may be empty (embedded:
   * whether it knows its partitions).
   */
  readonly joined: boolean;
  /** Partitions that are currently assigned. */
  readonly partitions: readonly number[];
  /** Partitions that are not being read, with the reason as text. */
  readonly stopped: ReadonlyMap<number, string>;
  /** Known number of records that are not handled, over all assigned partitions. */
  readonly lag: bigint;
  /** The reason why the log cannot be reached; undefined while it can. */
  readonly problem: string | undefined;
}

/** What a consumer knows of the records of a partition from an offset on. */
export interface Backlog {
  /** Known number of records. */
  readonly records: bigint;
  /**
   * When the log accepted the first of them, in milliseconds since the Unix epoch; an estimate until
   * it is read. Undefined without a record.
   */
  readonly oldestMs: number | undefined;
}

export interface LogConsumer {
  status(): ConsumerStatus;
  /**
   * Returns what is known of an assigned partition's records from an offset on, without a request to
   * the log. Undefined if the partition is not assigned.
   */
  backlog(partition: number, from: bigint): Backlog | undefined;
  /**
   * Asks for a partition's start offset again, once its handler has ended. Does nothing if the
   * partition is not assigned.
   */
  restart(partition: number): void;
  /**
   * Stops fetching, aborts the batches' signals and waits for the handlers (on Kafka, also commits
   * and leaves the group).
   */
  close(): Promise<void>;
}

/** Properties of a topic to create. */
export interface TopicSpec {
  readonly topic: string;
  readonly partitions: number;
  readonly replicas: number;
  readonly retentionMs: number;
  readonly segmentMs?: number;
}

/** Properties of an existing topic. */
export interface TopicDescription {
  readonly partitions: number;
  /** Retention of records in milliseconds; Infinity: no limit. */
  readonly retentionMs: number;
  /** The replication; undefined for the embedded log, which is stored once, in Postgres. */
  readonly replication?: TopicReplication;
}

export interface TopicReplication {
  /** Replicas of the partition that has fewest. */
  readonly replicas: number;
  /** In-sync replicas that an acknowledgement requires. */
  readonly inSyncMin: number;
  /**
   * Whether an out-of-sync replica may become the leader, which loses the records that it lacks.
   */
  readonly uncleanElections: boolean;
  /** Maximum bytes of a batch of records. */
  readonly batchBytesMax: number;
  /**
   * Maximum bytes that are kept per partition, regardless of its retention time; Infinity: no
   * limit.
   */
  readonly retentionBytes: number;
  /** Whether only the last record per key is kept (log compaction). */
  readonly compacted: boolean;
  /** The compression in which brokers store batches; `producer`: that of the producer. */
  readonly compression: string;
  /**
   * Milliseconds after which a segment is closed. Only whole segments are deleted, so the oldest
   * records are kept that much longer.
   */
  readonly segmentMs: number;
}

/** A range of records to read. */
export interface LogRange {
  readonly topic: string;
  readonly partition: number;
  /**
   * The first offset to read. If its record is deleted, reading starts at the first record that
   * exists.
   */
  readonly from: bigint;
  /** The end of the range: the first offset that is not read. */
  readonly to: bigint;
}

/** Reads a log without a consumer group and without committing offsets. Used by tools. */
export interface LogReader {
  /**
   * Returns the bounds of all partitions of those topics that exist. Rejects with a retryable
   * AppError `LOG_UNAVAILABLE`.
   */
  bounds(topics: readonly string[]): Promise<Map<string, Map<number, PartitionBounds>>>;
  /**
   * Reads a partition in order, in pages of at least one record and at most some megabytes. Throws
   * a retryable AppError `LOG_UNAVAILABLE`.
   */
  pages(range: LogRange): AsyncIterable<readonly LogRecord[]>;
  close(): Promise<void>;
}

/** A member of a consumer group, which is one consumer of a worker process. */
export interface GroupMember {
  readonly memberId: string;
  /** The address from which the member is connected. */
  readonly host: string;
  /** Empty while the group rebalances. */
  readonly partitions: readonly number[];
}

export interface EventLog {
  createPublisher(options: PublisherOptions): Publisher;
  /**
   * Starts consuming immediately. Connection problems are retried without limit and reported by
   * `status()`.
   */
  createConsumer(options: ConsumerOptions): LogConsumer;
  createReader(): LogReader;
  /** Creates the missing topics, waits until each can be written, and resolves with their names. */
  createTopics(specs: readonly TopicSpec[]): Promise<string[]>;
  /**
   * Returns the partition counts of those topics that exist. Rejects with a retryable AppError:
   * `LOG_UNAVAILABLE`, or `LOG_ACCESS_REFUSED` if settings are the cause.
   */
  partitionCounts(topics: readonly string[]): Promise<Map<string, number>>;
  /** Returns the properties of those topics that exist. Rejects like `partitionCounts`. */
  describeTopics(topics: readonly string[]): Promise<Map<string, TopicDescription>>;
  /**
   * Returns the members of consumer groups by group, each of which reads one topic. Undefined for
   * the embedded log, which has no groups. Rejects like `partitionCounts`.
   */
  groupMembers(groups: readonly string[]): Promise<Map<string, GroupMember[]> | undefined>;
  /**
   * Closes this log's own connections and timers; publishers and consumers must be closed before.
   */
  close(): Promise<void>;
}
