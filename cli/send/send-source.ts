import { errorCode } from '../../shared/errors.ts';
import { deliver } from './deliver.ts';
import type { GatewayClient } from './gateway-client.ts';
import type { InputLine } from './input-line.ts';
import type { SendKind } from './kinds.ts';
import { createLanes, type Lanes } from './lanes.ts';
import { createPreparer } from './prepare.ts';
import type { Progress, ProgressFile, Refusal } from './progress-file.ts';

export interface SendSourceOptions {
  readonly kind: SendKind;
  readonly lines: AsyncIterable<InputLine>;
  readonly client: GatewayClient;
  readonly delivery: string;
  readonly idColumn?: string | undefined;
  readonly concurrency: number;
  readonly retryForMs: number;
  readonly elapsedMs: () => number;
  readonly pause: (ms: number) => Promise<void>;
  /** Ends the run when aborted. The signal's reason is reported. */
  readonly signal: AbortSignal;
  /** Undefined for input that cannot be resumed: standard input and samples. */
  readonly progressFile?: ProgressFile | undefined;
  /** Whether to use the progress of an earlier run. */
  readonly resume: boolean;
  onProgress(counts: { readonly settled: number; readonly refused: number }): void;
}

/** The result of sending the records of a file. */
export interface SendResult {
  /** Number of records that were accepted in this run. */
  readonly accepted: number;
  readonly refusedCount: number;
  /** The first {@link REFUSALS_MAX} refusals, in order. */
  readonly refused: readonly Refusal[];
  /** The line at which this run continued an earlier run. */
  readonly resumedAtLine: number | undefined;
  /** The reason if the run ended early. The progress of the run is kept. */
  readonly stopped: Error | undefined;
}

export const REFUSALS_MAX = 100_000;
const BATCH_RECORDS_MAX = 1000;
const BATCH_BYTES_MAX = 1024 * 1024;
const SAVE_INTERVAL_MS = 1000;

/**
 * Sends all records and keeps the progress in a file. Returns the reason if the run had to stop
 * (`SEND_STOPPED`). Throws other errors.
 */
export async function sendSource(options: SendSourceOptions): Promise<SendResult> {
  const before = options.resume ? await options.progressFile?.read() : undefined;
  return await new SendRun(options, before).run();
}

class SendRun {
  readonly #options: SendSourceOptions;
  readonly #lanes: Lanes;
  readonly #resumedAtLine: number | undefined;
  readonly #refused: Refusal[];
  #refusedCount: number;
  #accepted = 0;
  #lastRead: number;
  #savedAtMs: number;

  constructor(options: SendSourceOptions, before: Progress | undefined) {
    this.#options = options;
    this.#resumedAtLine = before?.nextLine;
    this.#refused = [...(before?.refused ?? [])];
    this.#refusedCount = before?.refusedCount ?? 0;
    this.#lastRead = this.#firstLine - 1;
    this.#savedAtMs = options.elapsedMs();
    this.#lanes = createLanes({
      lanes: options.concurrency,
      batchRecordsMax: options.kind.many ? BATCH_RECORDS_MAX : 1,
      batchBytesMax: BATCH_BYTES_MAX,
      deliver: (batch) =>
        deliver({ ...options, settled: ({ number }, refusal) => this.#settle(number, refusal) }, batch),
    });
  }

  get #firstLine(): number {
    return this.#resumedAtLine ?? 1;
  }

  async run(): Promise<SendResult> {
    const { signal, client, progressFile } = this.#options;
    // Fails before anything is sent if the progress cannot be written.
    await progressFile?.write(this.#progress());
    try {
      await this.#sendLines();
    } catch (thrown) {
      // The error of an aborted stream does not contain the reason.
      const error = signal.aborted ? signal.reason : thrown;
      client.stop();
      await progressFile?.write(this.#progress());
      if (errorCode(error) === 'SEND_STOPPED') return this.#result(error as Error);
      throw error;
    }
    await progressFile?.remove();
    return this.#result(undefined);
  }

  async #sendLines(): Promise<void> {
    const { lines, signal } = this.#options;
    const prepare = createPreparer(this.#options);
    for await (const line of lines) {
      signal.throwIfAborted();
      const prepared = line.problem === undefined ? prepare(line) : line;
      this.#lastRead = line.number;
      // Settled lines are prepared too: the ids of later lines depend on them.
      if (line.number < this.#firstLine) continue;
      if ('entity' in prepared) await this.#lanes.add(prepared);
      else this.#refuse(prepared.number, prepared.problem);
      await this.#saveNowAndThen();
    }
    await this.#lanes.flush();
  }

  #settle(line: number, refusal: string | undefined): void {
    if (refusal === undefined) this.#accepted += 1;
    else this.#refuse(line, refusal);
    this.#options.onProgress({
      settled: this.#accepted + this.#refusedCount,
      refused: this.#refusedCount,
    });
  }

  #refuse(line: number, reason: string): void {
    this.#refusedCount += 1;
    if (this.#refused.length < REFUSALS_MAX) this.#refused.push({ line, reason });
  }

  async #saveNowAndThen(): Promise<void> {
    const { progressFile, elapsedMs } = this.#options;
    if (!progressFile || elapsedMs() - this.#savedAtMs <= SAVE_INTERVAL_MS) return;
    await progressFile.write(this.#progress());
    this.#savedAtMs = elapsedMs();
  }

  #progress(): Progress {
    const nextLine = this.#lanes.oldestPending() ?? this.#lastRead + 1;
    // A resumed run sends later lines again, so their refusals are not kept.
    const kept = this.#refused.filter(({ line }) => line < nextLine);
    return {
      nextLine,
      refused: kept,
      refusedCount: this.#refusedCount - (this.#refused.length - kept.length),
    };
  }

  #result(stopped: Error | undefined): SendResult {
    return {
      accepted: this.#accepted,
      refusedCount: this.#refusedCount,
      refused: this.#refused.sort((a, b) => a.line - b.line),
      resumedAtLine: this.#resumedAtLine,
      stopped,
    };
  }
}
