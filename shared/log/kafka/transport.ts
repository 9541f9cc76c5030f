import type { OutgoingRecord } from '../log.ts';

/** The records of one partition in one produce request: the leader stores all of them or none. */
export interface ProduceBatch {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly OutgoingRecord[];
}

/** What became of one batch. */
export type ProduceAnswer =
  | { readonly kind: 'stored'; readonly baseOffset: bigint }
  | {
      readonly kind: 'refused';
      /** Kafka's name of the error, such as NOT_LEADER_FOR_PARTITION. */
      readonly type: string;
      readonly retryable: boolean;
      /** False when the error says that nothing was stored. */
      readonly maybeStored: boolean;
    }
  | {
      readonly kind: 'unanswered';
      /** False when the request was never written to a connection. */
      readonly maybeStored: boolean;
      readonly cause: string;
    };

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
