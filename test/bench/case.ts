/** What a case measured. */
export interface CaseResult {
  /** The median figure of the rounds. */
  readonly value: number;
  /** Unit of `value` and `limit`. */
  readonly unit: string;
  /** The median of the limit in the same rounds, or the goal if that is a time or a share. */
  readonly limit: number;
  /** The ratio of each round. */
  readonly ratios: readonly number[];
  readonly p50Ms?: number;
  readonly p99Ms?: number;
  /** CPU milliseconds of the measured processes per record. */
  readonly cpuMs?: number;
  /** Peak resident memory of the measured processes. */
  readonly rssMiB?: number;
  /** Sentences about how it was measured. */
  readonly notes: readonly string[];
}

export interface RunLength {
  readonly rounds: number;
  readonly warmupMs: number;
  readonly measuredMs: number;
}

export interface BenchCase {
  readonly name: string;
  /** The least acceptable ratio. 1 if the goal is a time or a share. */
  readonly must: number;
  readonly goal: number;
  /** Whether the case cannot run without a Kafka broker. */
  readonly needsKafka: boolean;
  /** Rejects if a request was not answered 2xx, or if accepted records are missing from the store. */
  run(length: RunLength): Promise<CaseResult>;
}
