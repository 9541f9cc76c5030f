import cluster, { type Worker } from 'node:cluster';
import { settledWithDeadline } from '../shared/async.ts';
import { registry } from '../shared/metrics/registry.ts';
import { addCounts, type ProcessMetrics } from '../shared/metrics/render.ts';

/**
 * The metrics of the processes of one gateway. The supervisor asks each process for its metrics when
 * they are read.
 */

const REQUEST = 'sluice:metrics-request';
const ANSWER = 'sluice:metrics-answer';
/** Milliseconds after which a process that does not answer is reported as it last was. */
const ANSWER_DEADLINE_MS = 2000;

interface Answer {
  readonly type: typeof ANSWER;
  readonly metrics: ProcessMetrics;
}

/** Answers the supervisor's requests for the metrics of this process. Without a supervisor, does nothing. */
export function answerMetricsRequests(): void {
  if (!cluster.isWorker) return;
  process.on('message', async (message) => {
    if ((message as { readonly type?: unknown } | null)?.type !== REQUEST) return;
    const answer: Answer = { type: ANSWER, metrics: await registry.getMetricsAsJSON() };
    // The supervisor may have ended meanwhile.
    process.send?.(answer, undefined, undefined, () => {});
  });
}

/**
 * Collects the metrics of the processes. The counts of a process that has ended stay, as they were
 * last read: without them the sum would decrease, and Prometheus would take the rest for an increase.
 */
export class ProcessesMetrics {
  private readonly latest = new Map<number, ProcessMetrics>();
  /** The counts of all processes that have ended. */
  private ended: ProcessMetrics = [];
  /** Called when the process has answered, or has ended. */
  private readonly asked = new Map<number, { readonly answered: Promise<void>; readonly end: () => void }>();

  constructor() {
    cluster.on('message', (worker, message) => this.onMessage(worker, message));
    cluster.on('exit', (worker) => this.onExit(worker));
  }

  /** Resolves with the metrics of each process, of those that have ended, and of this process. */
  async collect(): Promise<readonly ProcessMetrics[]> {
    const running = Object.values(cluster.workers ?? {}).filter((worker) => worker?.isConnected());
    await settledWithDeadline(Promise.all(running.map((worker) => this.ask(worker!))), ANSWER_DEADLINE_MS);
    return [await registry.getMetricsAsJSON(), this.ended, ...this.latest.values()];
  }

  private ask(worker: Worker): Promise<void> {
    const before = this.asked.get(worker.id);
    if (before) return before.answered;
    let end = () => {};
    const answered = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.asked.set(worker.id, { answered, end });
    // A process that cannot be reached ends, and is replaced.
    worker.send({ type: REQUEST }, () => {});
    return answered;
  }

  private onMessage(worker: Worker, message: unknown): void {
    const answer = message as Partial<Answer> | null;
    // The last answer of a process can arrive after its end.
    if (answer?.type !== ANSWER || worker.isDead()) return;
    this.latest.set(worker.id, answer.metrics!);
    this.settle(worker.id);
  }

  private onExit({ id }: Worker): void {
    const last = this.latest.get(id);
    this.latest.delete(id);
    if (last) this.ended = addCounts(this.ended, last);
    this.settle(id);
  }

  private settle(id: number): void {
    this.asked.get(id)?.end();
    this.asked.delete(id);
  }
}
