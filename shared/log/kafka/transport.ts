import type { ProduceAnswer, ProduceBatch } from './protocol/produce.ts';

/** Where the publisher sends; the tests of the publisher script one of their own. */
export interface ProduceTransport {
  /** The partition's leader as last known, undefined when that has to be asked first. */
  leaderOf(topic: string, partition: number): number | undefined;
  /** The known leader turned out wrong. */
  forget(topic: string, partition: number): void;
  /** Asks who leads the partitions of these topics. Rejects with a retryable AppError `LOG_UNAVAILABLE` or `LOG_ACCESS_REFUSED`. */
  refresh(topics: readonly string[]): Promise<void>;
  /** One request (acks of all in-sync replicas); resolves with one answer a batch, in order; never rejects. */
  produce(leader: number, batches: readonly ProduceBatch[]): Promise<ProduceAnswer[]>;
  /** Cuts all connections. */
  close(): void;
}
