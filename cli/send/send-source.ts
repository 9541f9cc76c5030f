import { errorCode } from '../../shared/errors.ts';
import { deliver } from './deliver.ts';
import type { GatewayClient } from './gateway-client.ts';
import type { InputLine } from './input-line.ts';
import type { SendKind } from './kinds.ts';
import { createLanes } from './lanes.ts';
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
  /** Ends the run as soon as it can be; its reason says why. */
  readonly signal: AbortSignal;
  /** Left out where there is nothing to go on with (standard input, samples). */
  readonly progressFile?: ProgressFile | undefined;
  /** Whether an earlier run's progress counts. */
  readonly resume: boolean;
  onProgress(counts: { readonly settled: number; readonly refused: number }): void;
}

/** What became of a file's records. */
export interface SendResult {
  /** Of this run. */
  readonly accepted: number;
  readonly refusedCount: number;
  /** At most {@link REFUSALS_MAX} of them, in order. */
  readonly refused: readonly Refusal[];
  /** The line at which an earlier run had stopped. */
  readonly resumedAtLine: number | undefined;
  /** Why it ended before all was sent; what was settled until then is remembered. */
  readonly stopped: Error | undefined;
}

export const REFUSALS_MAX = 100_000;
const BATCH_RECORDS_MAX = 1000;
const BATCH_BYTES_MAX = 1024 * 1024;
const SAVE_INTERVAL_MS = 1000;

/**
 * Sends all records and remembers, while it runs, below which line everything is settled. Where it cannot go on
 * (`SEND_STOPPED`) the result says why; what else goes wrong is thrown.
 */
export async function sendSource(options: SendSourceOptions): Promise<SendResult> {
  const { kind, client, progressFile, signal } = options;
  const before = options.resume ? await progressFile?.read() : undefined;
  const firstLine = before?.nextLine ?? 1;
  const refused: Refusal[] = [...(before?.refused ?? [])];
  let refusedCount = before?.refusedCount ?? 0;
  let accepted = 0;
  let lastRead = firstLine - 1;
  let savedAtMs = options.elapsedMs();

  const refuse = (line: number, reason: string) => {
    refusedCount += 1;
    if (refused.length < REFUSALS_MAX) refused.push({ line, reason });
  };
  const settled = ({ number }: { readonly number: number }, refusal: string | undefined) => {
    if (refusal === undefined) accepted += 1;
    else refuse(number, refusal);
    options.onProgress({ settled: accepted + refusedCount, refused: refusedCount });
  };
  const lanes = createLanes({
    lanes: options.concurrency,
    batchRecordsMax: kind.many ? BATCH_RECORDS_MAX : 1,
    batchBytesMax: BATCH_BYTES_MAX,
    deliver: (batch) => deliver({ ...options, settled }, batch),
  });
  const prepare = createPreparer(options);
  const progress = (): Progress => {
    const nextLine = lanes.oldestPending() ?? lastRead + 1;
    // Lines from there on are sent again, and refused again.
    const kept = refused.filter(({ line }) => line < nextLine);
    return { nextLine, refused: kept, refusedCount: refusedCount - (refused.length - kept.length) };
  };

  const result = (stopped?: Error): SendResult => ({
    accepted,
    refusedCount,
    refused: refused.sort((a, b) => a.line - b.line),
    resumedAtLine: before && firstLine,
    stopped,
  });

  // Whoever cannot keep the progress learns it before anything is sent.
  await progressFile?.write(progress());
  try {
    for await (const line of options.lines) {
      signal.throwIfAborted();
      const prepared = line.problem === undefined ? prepare(line) : line;
      lastRead = line.number;
      // Read and counted all the same: the ids of later lines depend on it.
      if (line.number < firstLine) continue;
      if ('problem' in prepared && prepared.problem !== undefined) refuse(prepared.number, prepared.problem);
      else if ('text' in prepared) await lanes.add(prepared as Parameters<typeof lanes.add>[0]);
      if (progressFile && options.elapsedMs() - savedAtMs > SAVE_INTERVAL_MS) {
        await progressFile.write(progress());
        savedAtMs = options.elapsedMs();
      }
    }
    await lanes.flush();
  } catch (thrown) {
    // A stream that was aborted says only that.
    const error = signal.aborted ? signal.reason : thrown;
    client.stop();
    await progressFile?.write(progress());
    if (errorCode(error) === 'SEND_STOPPED') return result(error as Error);
    throw error;
  }
  await progressFile?.remove();
  return result();
}
