import { Counter, Histogram } from 'prom-client';
import { CONFLICT, DEAD_LETTER_REASONS, type DeadLetterReason } from '../../shared/contracts/dead-letter.ts';
import { DURATION_BUCKETS } from '../../shared/metrics/buckets.ts';
import { registry } from '../../shared/metrics/registry.ts';
import { FAILURE_REASONS, failureReason } from './faults.ts';

const RESULTS = ['stored', 'repeated', 'conflict', 'dead-letter', 'skipped'] as const;
type Result = (typeof RESULTS)[number];

const STAGES = ['slot', 'decode', 'lock', 'deduplicate', 'write', 'commit'] as const;
export type Stage = (typeof STAGES)[number];

const records = new Counter({
  name: 'sluice_worker_records_total',
  help: 'Records whose batch was committed by this process, by what became of them: stored, repeated (the same id and content were stored before), conflict (other content was stored under the id), dead-letter (for another reason), or skipped (stored by an earlier batch, replayed and stored before, or erased).',
  labelNames: ['topic', 'result'],
  registers: [registry],
});

const rows = new Counter({
  name: 'sluice_worker_rows_total',
  help: 'Rows that committed batches of this process added: stored records, dead letters and webhook deliveries. Ids, current states and counts are not included.',
  labelNames: ['topic'],
  registers: [registry],
});

const batchRecords = new Histogram({
  name: 'sluice_worker_batch_records',
  help: 'Records per committed batch, which is one transaction on the database for one or more partitions of the topic.',
  labelNames: ['topic'],
  buckets: [1, 5, 10, 50, 100, 250, 500, 1000],
  registers: [registry],
});

const stageDuration = new Histogram({
  name: 'sluice_worker_batch_duration_seconds',
  help: 'Seconds per stage of a committed batch: slot (waits for a transaction slot of the process), decode (per partition), lock (begins the transaction and locks the positions), deduplicate (stores ids and finds repeats), write (sends rows, dead letters and webhook deliveries), commit (the database runs what it has not answered yet, and commits).',
  labelNames: ['topic', 'stage'],
  buckets: DURATION_BUCKETS,
  registers: [registry],
});

const failures = new Counter({
  name: 'sluice_worker_batch_failures_total',
  help: 'Attempts of this process to store a batch that failed, by reason: record (the database refuses a record), bound (too many webhook deliveries), no-partition (a week has no table yet), disk-full, connections (the database has none left), lock (another session holds a lock, or a deadlock), timeout (the transaction took too long), refused (role, password, right, TLS or read-only), unavailable (the database does not answer, or restarts), position (the log was replaced, or another worker has the partition) or unexpected. All are retried, or isolate records that become dead letters.',
  labelNames: ['topic', 'reason'],
  registers: [registry],
});

const deadLetters = new Counter({
  name: 'sluice_dead_letters_total',
  help: 'Dead letters that this process wrote, by reason. Includes replays that failed again. The command `./sluice dead-letters list` shows them.',
  labelNames: ['topic', 'reason'],
  registers: [registry],
});

/** The metrics of one topic. */
export class TopicMetrics {
  readonly #topic: string;

  /** Sets the counts of the topic to 0, so that rates count the first event. */
  constructor(topic: string) {
    this.#topic = topic;
    rows.inc({ topic }, 0);
    for (const result of RESULTS) records.inc({ topic, result }, 0);
    for (const reason of FAILURE_REASONS) failures.inc({ topic, reason }, 0);
    for (const reason of DEAD_LETTER_REASONS) deadLetters.inc({ topic, reason }, 0);
    for (const stage of STAGES) stageDuration.zero({ topic, stage });
    batchRecords.zero({ topic });
  }

  /** Begins to measure a transaction. */
  beginBatch(): BatchMeter {
    return new BatchMeter(this.#topic);
  }

  /** Measures a stage that began at `startedAtMs` of performance.now(). */
  endStage(stage: Stage, startedAtMs: number): void {
    stageDuration.observe({ topic: this.#topic, stage }, (performance.now() - startedAtMs) / 1000);
  }

  countFailure(error: unknown): void {
    failures.inc({ topic: this.#topic, reason: failureReason(error) });
  }
}

/** What a transaction stores. */
export interface Stored {
  readonly records: number;
  readonly repeats: number;
  readonly deadLetters: readonly { readonly rejection: { readonly reason: DeadLetterReason } }[];
  readonly deliveries: number;
}

/** Measures one transaction. Nothing is reported unless it is committed. */
export class BatchMeter {
  readonly #topic: string;
  readonly #seconds: [stage: Stage, seconds: number][] = [];
  #lastMs = performance.now();
  #stored: Stored = { records: 0, repeats: 0, deadLetters: [], deliveries: 0 };
  /** The records of the transaction. */
  total = 0;

  constructor(topic: string) {
    this.#topic = topic;
  }

  /** Ends a stage, which began with the end of the previous one. */
  endStage(stage: Stage): void {
    const nowMs = performance.now();
    this.#seconds.push([stage, (nowMs - this.#lastMs) / 1000]);
    this.#lastMs = nowMs;
  }

  noteStored(stored: Stored): void {
    this.#stored = stored;
  }

  /** Reports the transaction, once it is committed. */
  commit(): void {
    this.endStage('commit');
    const topic = this.#topic;
    const { records: stored, repeats, deadLetters: letters, deliveries } = this.#stored;
    const conflicts = letters.filter(({ rejection }) => rejection.reason === CONFLICT).length;
    const counts: Readonly<Record<Result, number>> = {
      stored,
      repeated: repeats,
      conflict: conflicts,
      'dead-letter': letters.length - conflicts,
      skipped: this.total - stored - repeats - letters.length,
    };
    for (const result of RESULTS) if (counts[result] > 0) records.inc({ topic, result }, counts[result]);
    for (const { rejection } of letters) deadLetters.inc({ topic, reason: rejection.reason });
    rows.inc({ topic }, stored + letters.length + deliveries);
    batchRecords.observe({ topic }, this.total);
    for (const [stage, seconds] of this.#seconds) stageDuration.observe({ topic, stage }, seconds);
  }
}
