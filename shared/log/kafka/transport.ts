import type { ProduceAnswer, ProduceBatch } from './protocol/produce.ts';

/**
 * The connection of a publisher to the leaders. Tests replace the connection with a scripted one.
 */
export interface ProduceTransport {
  /** Returns the last known leader of a partition; undefined before a refresh. */
  leaderOf(topic: string, partition: number): number | undefined;
  /** Drops the known leader of a partition, because it was wrong. */
  forget(topic: string, partition: number): void;
  /**
   * Reads the leaders of these topics' partitions. Rejects with a retryable AppError
   * `LOG_UNAVAILABLE` or `LOG_ACCESS_REFUSED`.
   */
  refresh(topics: readonly string[]): Promise<void>;
  /**
   * Sends one request (acks of all in-sync replicas). Resolves with one result per batch, in order;
   * never rejects.
   */
  produce(leader: number, batches: readonly ProduceBatch[]): Promise<ProduceAnswer[]>;
  /** Closes all connections. */
  close(): void;
}
