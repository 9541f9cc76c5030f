import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { deliver } from './deliver.ts';
import type { GatewayClient } from './gateway-client.ts';
import type { InputLine } from './input.ts';
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
}

export const REFUSALS_MAX = 100_000;
const BATCH_RECORDS_MAX = 1000;
const BATCH_BYTES_MAX = 1024 * 1024;
const SAVE_INTERVAL_MS = 1000;

/**
 * Sends all records and remembers, while it runs, below which line everything is settled. Throws AppErrors
 * (`SEND_STOPPED` …) when it cannot go on; what was settled until then is remembered.
 */
export async function sendSource(options: SendSourceOptions): Promise<SendResult> {
  const { kind, client, progressFile } = options;
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

  // Whoever cannot keep the progress learns it before anything is sent.
  await progressFile?.write(progress());
  try {
    for await (const line of options.lines) {
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
  } catch (error) {
    client.stop();
    await progressFile?.write(progress());
    throw error;
  }
  await progressFile?.remove();
  refused.sort((a, b) => a.line - b.line);
  return { accepted, refusedCount, refused, resumedAtLine: before && firstLine };
}

/** The SHA-256 of a stream, in hex. */
export async function digestOf(stream: Readable): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of stream as AsyncIterable<Buffer>) hash.update(part);
  return hash.digest('hex');
}
