import { errorCode } from '../../shared/errors.ts';
import type { Settled } from './deliver.ts';
import type { InputLine } from './input-line.ts';
import type { SendKind } from './kinds.ts';
import { createLanes, type Lanes } from './lanes.ts';
import { createPreparer, type Prepared } from './prepare.ts';
import type { Progress, ProgressFile, Refusal } from './progress-file.ts';

export interface SendSourceOptions {
  readonly kind: SendKind;
  readonly lines: AsyncIterable<InputLine>;
  /** Sends a batch, and calls `settled` once per record. */
  readonly deliver: (batch: readonly Prepared[], settled: Settled) => Promise<void>;
  /** Aborts the deliveries that wait for a retry. */
  readonly stop: () => void;
  readonly delivery: string;
  readonly idColumn?: string | undefined;
  readonly concurrency: number;
  readonly elapsedMs: () => number;
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
  /** Number of new records that were accepted in this run, without duplicates. */
  readonly accepted: number;
  /** Number of records that the gateway had accepted before, without duplicates. */
  readonly known: number;
  /** Number of accepted records that repeat an earlier line of the file. They are stored once. */
  readonly duplicates: number;
  readonly refusedCount: number;
  /** The first {@link REFUSALS_MAX} refusals, in order. */
  readonly refused: readonly Refusal[];
  /**
   * Entities of accepted lines that an earlier run refused before it accepted a later line of the
   * same entity. Those lines have overwritten it.
   */
  readonly overwritten: readonly string[];
  /** The line at which this run continued an earlier run. */
  readonly resumedAtLine: number | undefined;
  /** The reason if the run ended early. The progress of the run is kept. */
  readonly stopped: Error | undefined;
}

export const REFUSALS_MAX = 100_000;
const OVERWRITTEN_MAX = 100_000;
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
  readonly #lanes: Lanes<Prepared>;
  readonly #resumedAtLine: number | undefined;
  readonly #refused: Refusal[];
  /** The entries of `#refused` by entity. */
  readonly #refusedOf = new Map<string, Refusal[]>();
  readonly #overwritten: string[] = [];
  #refusedCount: number;
  #accepted = 0;
  #known = 0;
  #duplicates = 0;
  #lastRead: number;
  /** Whether the input has a line. An input that cannot be read leaves no progress. */
  #hasBegun = false;
  #savedAtMs: number;

  constructor(options: SendSourceOptions, before: Progress | undefined) {
    this.#options = options;
    this.#resumedAtLine = before?.nextLine;
    this.#refused = (before?.refused ?? []).map((refusal) => ({ ...refusal }));
    for (const refusal of this.#refused) this.#index(refusal);
    this.#refusedCount = before?.refusedCount ?? 0;
    this.#lastRead = this.#firstLine - 1;
    this.#savedAtMs = options.elapsedMs();
    this.#lanes = createLanes({
      lanes: options.concurrency,
      batchRecordsMax: options.kind.many ? BATCH_RECORDS_MAX : 1,
      batchBytesMax: BATCH_BYTES_MAX,
      deliver: (batch) => options.deliver(batch, (...settled) => this.#settle(...settled)),
    });
  }

  get #firstLine(): number {
    return this.#resumedAtLine ?? 1;
  }

  async run(): Promise<SendResult> {
    const { signal, stop, progressFile } = this.#options;
    try {
      await this.#sendLines();
    } catch (thrown) {
      // The error of an aborted stream does not contain the reason.
      const error = signal.aborted ? signal.reason : thrown;
      stop();
      if (this.#hasBegun) await progressFile?.write(this.#progress());
      if (errorCode(error) === 'SEND_STOPPED') return this.#result(error as Error);
      throw error;
    }
    await progressFile?.remove();
    return this.#result(undefined);
  }

  async #sendLines(): Promise<void> {
    const { lines, signal, progressFile } = this.#options;
    const prepare = createPreparer(this.#options);
    for await (const line of lines) {
      signal.throwIfAborted();
      if (!this.#hasBegun) {
        // Fails before anything is sent if the progress cannot be written.
        await progressFile?.write(this.#progress());
        this.#hasBegun = true;
      }
      const prepared = prepare(line);
      this.#lastRead = line.number;
      // Settled lines are prepared too: the ids of later lines depend on them.
      if (line.number < this.#firstLine) continue;
      if ('text' in prepared) await this.#lanes.add(prepared);
      else this.#refuse(prepared.number, prepared.problem, prepared.entity);
      await this.#saveNowAndThen();
    }
    await this.#lanes.flush();
  }

  #settle(...[record, refusal, isKnown]: Parameters<Settled>): void {
    const { number, entity, isDuplicate, isOlder } = record;
    if (refusal !== undefined) this.#refuse(number, refusal, entity);
    else {
      if (isDuplicate) this.#duplicates += 1;
      else if (isKnown) this.#known += 1;
      else this.#accepted += 1;
      this.#markOlder(entity, number);
      if (isOlder && !isKnown && this.#overwritten.length < OVERWRITTEN_MAX) this.#overwritten.push(entity);
    }
    this.#options.onProgress({
      settled: this.#accepted + this.#known + this.#duplicates + this.#refusedCount,
      refused: this.#refusedCount,
    });
  }

  #refuse(line: number, reason: string, entity: string | undefined): void {
    this.#refusedCount += 1;
    if (this.#refused.length >= REFUSALS_MAX) return;
    const refusal: Refusal = { line, reason, ...(entity !== undefined && { entity }) };
    this.#refused.push(refusal);
    this.#index(refusal);
  }

  /** Marks the refused lines before an accepted line of the same entity. */
  #markOlder(entity: string, line: number): void {
    const refused = this.#refusedOf.get(entity);
    if (!refused) return;
    for (const refusal of refused) if (refusal.line < line) refusal.newerLine = line;
    // Each line is marked once, so that an entity with many refused lines takes no longer.
    const later = refused.filter((refusal) => refusal.line > line);
    if (later.length > 0) this.#refusedOf.set(entity, later);
    else this.#refusedOf.delete(entity);
  }

  #index(refusal: Refusal): void {
    const { entity } = refusal;
    const { entityMember, idMember } = this.#options.kind;
    // A record that is an entity of its own is never overwritten.
    if (!entity || entityMember === idMember || refusal.newerLine !== undefined) return;
    const others = this.#refusedOf.get(entity);
    if (others) others.push(refusal);
    else this.#refusedOf.set(entity, [refusal]);
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
      known: this.#known,
      duplicates: this.#duplicates,
      refusedCount: this.#refusedCount,
      refused: this.#refused.sort((a, b) => a.line - b.line),
      overwritten: this.#overwritten.sort(),
      resumedAtLine: this.#resumedAtLine,
      stopped,
    };
  }
}
