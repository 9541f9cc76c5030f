import cluster, { type Worker } from 'node:cluster';
import { backoffMs } from '../shared/async.ts';
import { AppError } from '../shared/errors.ts';
import { createHealth, type Health } from '../shared/http/health.ts';
import type { HttpServer } from '../shared/http/listener/serve.ts';
import type { CollectMetrics } from '../shared/http/metrics-route.ts';
import type { Logger } from '../shared/logging.ts';
import { CANNOT_START } from '../shared/process/main.ts';
import type { Output } from '../shared/process/output.ts';
import { stopOnSignals } from '../shared/process/shutdown.ts';
import { ProcessesMetrics } from './process-metrics.ts';
import { countExit, reportProcesses } from './supervisor-metrics.ts';

/** The part of a `Worker` of node:cluster that the supervisor uses. */
export interface SupervisedProcess {
  readonly process: {
    readonly pid?: number | undefined;
    kill(signal: NodeJS.Signals): unknown;
  };
  once(event: 'listening', listener: () => void): unknown;
  once(event: 'exit', listener: (code: number | null, signal: string | null) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

export interface SupervisorOptions {
  /** Number of processes. */
  readonly processes: number;
  readonly fork: () => SupervisedProcess;
  readonly logger: Logger;
  /** Called once, when a process cannot start and no other one listens. */
  readonly onCannotStart: () => void;
  /** Monotonic milliseconds. Default: `performance.now`. */
  readonly elapsedMs?: () => number;
  /** Calls a function after a time. Default: `setTimeout`; set in tests. */
  readonly callAfter?: (ms: number, call: () => void) => void;
}

/** One of the processes, with those that replaced it. */
interface Slot {
  running: SupervisedProcess | undefined;
  /** The time since which the process listens; undefined before that. */
  listeningSinceMs: number | undefined;
  /** Consecutive ends of processes that did not listen for {@link STABLE_MS}. */
  failures: number;
}

const RESTART_BACKOFF = { minMs: 200, maxMs: 30_000 };
/** Milliseconds of listening after which the next end of a process counts as the first one again. */
const STABLE_MS = 30_000;
/** Milliseconds for a process to exit after the grace period, which it observes itself. */
const EXIT_MARGIN_MS = 2000;

/**
 * Keeps a number of processes running. The first one is started alone: if it cannot start, the
 * others could not either, and only one reports why.
 */
export class Supervisor {
  private readonly options: SupervisorOptions;
  private readonly slots: Slot[];
  private readonly elapsedMs: () => number;
  private readonly callAfter: (ms: number, call: () => void) => void;
  private isStopping = false;
  private exitCodes: (number | null)[] = [];
  private onAllExited: (() => void) | undefined;

  constructor(options: SupervisorOptions) {
    this.options = options;
    this.elapsedMs = options.elapsedMs ?? (() => performance.now());
    this.callAfter = options.callAfter ?? ((ms, call) => void setTimeout(call, ms));
    this.slots = Array.from({ length: options.processes }, () => ({
      running: undefined,
      listeningSinceMs: undefined,
      failures: 0,
    }));
  }

  start(): void {
    this.startProcess(this.slots[0]!);
  }

  /**
   * Shuts all processes down together. Resolves when they have exited. Rejects with AppError
   * `PROCESS_FAILED` if one did not exit with 0.
   */
  async stop(): Promise<void> {
    this.isStopping = true;
    await new Promise<void>((resolve) => {
      this.onAllExited = resolve;
      this.signalAll('SIGTERM');
      this.resolveIfAllExited();
    });
    if (this.exitCodes.some((code) => code !== 0)) {
      throw new AppError('PROCESS_FAILED', `the processes exited with ${this.exitCodes.join(', ')}`);
    }
  }

  /** Returns how many processes do not listen. */
  notListening(): number {
    return this.slots.filter(({ listeningSinceMs }) => listeningSinceMs === undefined).length;
  }

  /** Sends a signal to every running process. */
  signalAll(signal: NodeJS.Signals): void {
    for (const { running } of this.slots) running?.process.kill(signal);
  }

  private startProcess(slot: Slot): void {
    const child = this.options.fork();
    slot.running = child;
    slot.listeningSinceMs = undefined;
    child.once('listening', () => this.onListening(slot));
    child.once('exit', (code, signal) => {
      if (slot.running === child) this.onExit(slot, code, signal);
    });
    // Several can occur, such as failed messages to a process that was just killed. A process that
    // could not be created has no exit.
    child.on('error', (error) => {
      this.options.logger.error({ err: error }, 'gateway process failed');
      if (child.process.pid === undefined && slot.running === child) this.onExit(slot, null, null);
    });
  }

  private onListening(slot: Slot): void {
    slot.listeningSinceMs = this.elapsedMs();
    if (this.isStopping) return;
    for (const other of this.slots) {
      if (other.running === undefined && other.failures === 0) this.startProcess(other);
    }
  }

  private onExit(slot: Slot, code: number | null, signal: string | null): void {
    const pid = slot.running?.process.pid;
    const wasStable =
      slot.listeningSinceMs !== undefined && this.elapsedMs() - slot.listeningSinceMs >= STABLE_MS;
    slot.running = undefined;
    slot.listeningSinceMs = undefined;
    if (this.isStopping) {
      // A process that is still starting has no handler for the signal, and has accepted nothing.
      this.exitCodes.push(signal === 'SIGTERM' ? 0 : code);
      this.resolveIfAllExited();
      return;
    }
    if (code === CANNOT_START && this.slots.every(({ listeningSinceMs }) => listeningSinceMs === undefined)) {
      this.isStopping = true;
      this.options.onCannotStart();
      return;
    }
    countExit();
    slot.failures = wasStable ? 1 : slot.failures + 1;
    const restartInMs = Math.round(backoffMs(slot.failures, RESTART_BACKOFF));
    this.options.logger.error({ pid, code, signal, restartInMs }, 'gateway process exited, restarting');
    this.callAfter(restartInMs, () => {
      if (!this.isStopping) this.startProcess(slot);
    });
  }

  private resolveIfAllExited(): void {
    if (this.slots.every(({ running }) => running === undefined)) this.onAllExited?.();
  }
}

/**
 * Runs the supervisor in this process, which accepts the connections and passes them round robin to
 * the processes. Exits with 0 after a graceful shutdown of all processes, else with 1. Rejects with
 * AppError LISTEN_FAILED if the metrics cannot be served.
 */
export async function runSupervisor(options: {
  readonly processes: number;
  readonly graceMs: number;
  readonly logger: Logger;
  readonly output: Output;
  /** Starts the listener for the metrics of all processes. */
  readonly serveMetrics: (collect: CollectMetrics, health: Health) => Promise<HttpServer>;
}): Promise<void> {
  const { processes, graceMs, logger, output, serveMetrics } = options;
  // Without it, the system gives most connections to the process that happens to be idle first.
  cluster.schedulingPolicy = cluster.SCHED_RR;
  const supervisor = new Supervisor({
    processes,
    fork: () => cluster.fork() as Worker & SupervisedProcess,
    logger,
    onCannotStart: () => process.exit(1),
  });
  process.once('exit', () => supervisor.signalAll('SIGKILL'));
  const health = createHealth();
  health.watchReady('processes', () => {
    const count = supervisor.notListening();
    return count === 0 ? undefined : `${count} of ${processes} do not listen`;
  });
  reportProcesses(processes, supervisor);
  const metrics = new ProcessesMetrics();
  const server = await serveMetrics(() => metrics.collect(), health);
  const stop = async () => {
    await supervisor.stop();
    await server.close();
  };
  stopOnSignals({ logger, output, graceMs: graceMs + EXIT_MARGIN_MS, stop });
  logger.info({ processes }, 'gateway processes starting');
  supervisor.start();
}

/**
 * Calls a function when this process's supervisor has ended. The process then continues, instead of
 * exiting immediately, so that it can answer the requests in flight. Without a supervisor, does
 * nothing.
 */
export function onSupervisorEnd(call: () => void): void {
  const { worker } = cluster;
  worker?.once('disconnect', () => {
    worker.exitedAfterDisconnect = true;
    call();
  });
}
