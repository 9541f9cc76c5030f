import { DURATION_BUCKETS } from '../metrics/buckets.ts';
import { type Count, HotCounter, HotHistogram, type Observations } from '../metrics/hot-metrics.ts';

/** A listener that serves operations, as the label `listener` names it. */
export type ListenerName = 'gateway' | 'admin';

const requests = new HotCounter({
  name: 'sluice_http_requests_total',
  help: 'Answered requests by operation, status, and error code where the answer has one. Operation unknown: 404-01 for a path or method that does not exist, 400-01 for a request that is not valid HTTP, has too large headers, or did not arrive in time.',
  labelNames: ['listener', 'operation', 'status', 'code'],
});

const durations = new HotHistogram({
  name: 'sluice_http_request_duration_seconds',
  help: 'Time from the headers of a request to its answer, which includes the arrival of its body.',
  labelNames: ['listener', 'operation'],
  buckets: DURATION_BUCKETS,
});

/** The name of requests without an operation: for a path that does not exist, or not valid HTTP. */
export const UNKNOWN_OPERATION = 'unknown';

/** Statuses that alerts look at, and that are therefore reported before the first one occurs. */
const FAILURES = ['500-01', '503-01'] as const;

/** Returns a function that counts a request which is refused before its operation is known. */
export function countUnparsable(listener: ListenerName | undefined): () => void {
  if (listener === undefined) return () => {};
  const count = requests.of({ listener, operation: UNKNOWN_OPERATION, status: '400', code: '400-01' });
  return () => {
    count.value += 1;
  };
}

/** Counts and times the requests of one operation. */
export class RequestMetrics {
  private readonly labels: { readonly listener: ListenerName; readonly operation: string };
  /** By status, and for refusals also by status and code. */
  private readonly counts = new Map<number | string, Count>();
  private observations: Observations | undefined;

  /** `statuses`: the statuses of answers without an error code. */
  constructor(listener: ListenerName, operation: string, statuses: readonly number[] = []) {
    this.labels = { listener, operation };
    for (const status of statuses) this.countOf(status, undefined);
    for (const code of FAILURES) this.countOf(Number(code.slice(0, 3)), code);
  }

  /** Counts an answer. `code` is its error code, if any. */
  answered(status: number, code: string | undefined, durationMs: number): void {
    this.countOf(status, code).value += 1;
    // Most of the many operations of the admin listener are rarely used.
    this.observations ??= durations.of(this.labels);
    this.observations.observe(durationMs / 1000);
  }

  private countOf(status: number, code: string | undefined): Count {
    const key = code === undefined ? status : `${status} ${code}`;
    let count = this.counts.get(key);
    if (count === undefined) {
      count = requests.of({ ...this.labels, status: String(status), code: code ?? '' });
      this.counts.set(key, count);
    }
    return count;
  }
}
