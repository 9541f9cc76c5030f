import { stat } from 'node:fs/promises';
import { addAbortSignal, Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { writeJson } from '../../shared/contracts/json.ts';
import type { CommandContext } from '../context.ts';
import { printable } from '../printable.ts';
import { createTimeReader, type DateFormat } from './dates.ts';
import { deliver } from './deliver.ts';
import { problemOf } from './describe-problem.ts';
import { createGatewayClient, type SendTarget } from './gateway-client.ts';
import { digestOf, formatOf, openFile, readLines, STDIN, STDIN_NAME } from './input.ts';
import type { Format, InputLine, Mapping } from './input-line.ts';
import type { SendKind } from './kinds.ts';
import type { Prepared } from './prepare.ts';
import { createProgressBar, type ProgressBar } from './progress-bar.ts';
import { createProgressFile } from './progress-file.ts';
import type { FileReport } from './report.ts';
import { type SendSourceOptions, sendSource } from './send-source.ts';

/** Options for reading and sending files. */
export interface SendFileOptions {
  /** Number of samples to send in place of a file. */
  readonly sample?: number;
  readonly format?: Format;
  readonly delimiter: string;
  readonly map?: readonly Mapping[];
  readonly dateFormat?: readonly DateFormat[];
  readonly timeZone?: string;
  readonly idColumn?: string;
  readonly delivery?: string;
  readonly concurrency?: number;
  readonly retryFor: number;
  readonly state?: string;
  readonly resume: boolean;
  readonly json?: boolean;
}

/**
 * Default number of requests in flight. Requests with many items are large, so fewer of them are
 * needed.
 */
export const CONCURRENCY = { many: 4, single: 16 };
export const STATE_SUFFIX = '.sluice-state';
const DELIVERY_LENGTH = 16;

export interface Source {
  readonly kind: SendKind;
  /** Undefined if the records are only checked. */
  readonly target: SendTarget | undefined;
  /** Undefined for samples. */
  readonly file?: string;
}

/** Sends or checks one file, standard input or samples, and shows the progress. */
export async function sendFile(
  context: CommandContext,
  { kind, target, file }: Source,
  options: SendFileOptions,
  signal: AbortSignal,
): Promise<FileReport> {
  const startedMs = performance.now();
  const elapsedMs = () => performance.now();
  const path = file === STDIN ? undefined : file;
  const digest = path === undefined ? '' : await digestOf(await openFile(path));
  const delivery = kind.onceForAll ? '' : (options.delivery ?? digest.slice(0, DELIVERY_LENGTH));
  const name = file === undefined ? 'samples' : file === STDIN ? STDIN_NAME : file;
  const size = path === undefined ? (options.sample ?? 0) : (await stat(path)).size;
  const bar = createProgressBar(context.stderr, { name, total: size, visible: !options.json });
  const checker = target ? undefined : createChecker(kind);
  const retryForMs = options.retryFor * 1000;
  const receiver = target ? createSender({ kind, target, retryForMs, signal, bar, elapsedMs }) : checker!;
  const progressFile =
    path && target
      ? createProgressFile(statePath(path, options), {
          kind: kind.name,
          url: target.url,
          apiKeyId: target.apiKeyId,
          file: digest,
          delivery,
        })
      : undefined;
  try {
    const result = await sendSource({
      kind,
      lines: await openLines(kind, file, options, bar, signal),
      deliver: receiver.deliver,
      stop: receiver.stop,
      delivery,
      idColumn: options.idColumn,
      concurrency: options.concurrency ?? (kind.many ? CONCURRENCY.many : CONCURRENCY.single),
      elapsedMs,
      signal,
      progressFile,
      resume: options.resume,
      onProgress: bar.counts,
    });
    return {
      file: name,
      kind: kind.name,
      delivery,
      ...result,
      ...(checker && { checked: checker.first() }),
      durationMs: Math.round(elapsedMs() - startedMs),
    };
  } finally {
    bar.stop();
  }
}

type Receiver = Pick<SendSourceOptions, 'deliver' | 'stop'>;

/** Returns a receiver that sends the records to the gateway. */
function createSender({
  kind,
  target,
  retryForMs,
  signal,
  bar,
  elapsedMs,
}: {
  readonly kind: SendKind;
  readonly target: SendTarget;
  readonly retryForMs: number;
  readonly signal: AbortSignal;
  readonly bar: ProgressBar;
  readonly elapsedMs: () => number;
}): Receiver {
  const client = createGatewayClient({
    target,
    fetch,
    delay: (ms, stop) => delay(ms, undefined, { signal: stop }),
    elapsedMs,
    retryForMs,
    signal,
    onWaiting: (sentence) => bar.say(`sluice: ${sentence}`),
  });
  const deps = { client, kind, pause: (ms: number) => delay(ms), elapsedMs, retryForMs };
  return {
    stop: () => client.stop(),
    deliver: (batch, settled) =>
      deliver(
        {
          ...deps,
          settled: (record, refusal, isKnown) =>
            // The gateway knows neither the names of the columns nor repeats the values.
            settled(
              record,
              refusal === undefined ? undefined : (problemOf(record, kind) ?? refusal),
              isKnown,
            ),
        },
        batch,
      ),
  };
}

/** Returns a receiver that only checks the records, and returns the first valid one. */
function createChecker(kind: SendKind): Receiver & { first(): { line: number; text: string } | null } {
  let first: Prepared | undefined;
  return {
    stop() {},
    async deliver(batch, settled) {
      for (const record of batch) {
        const problem = problemOf(record, kind);
        settled(record, problem, false);
        if (problem === undefined && !(first && first.number < record.number)) first = record;
      }
    },
    first: () => (first ? { line: first.number, text: first.text } : null),
  };
}

const statePath = (file: string, { state }: SendFileOptions) => state ?? `${file}${STATE_SUFFIX}`;

async function openLines(
  kind: SendKind,
  file: string | undefined,
  options: SendFileOptions,
  bar: ProgressBar,
  signal: AbortSignal,
): Promise<AsyncIterable<InputLine>> {
  if (file === undefined) return samples(kind, options.sample!, bar.bytesRead);
  const stream = file === STDIN ? process.stdin : counted(await openFile(file), bar.bytesRead);
  // Reading from a terminal or a pipe may never end.
  return readLines(addAbortSignal(signal, stream), {
    format: options.format ?? formatOf(file)!,
    kind,
    idColumn: options.idColumn,
    delimiter: options.delimiter,
    mappings: options.map,
    readTime: createTimeReader(options.dateFormat ?? [], options.timeZone ?? 'UTC'),
    warn: (sentence) => bar.say(`sluice: ${printable(sentence)}`),
  });
}

async function* samples(kind: SendKind, count: number, made: (n: number) => void): AsyncGenerator<InputLine> {
  for (let n = 1; n <= count; n++) {
    made(1);
    yield { number: n, text: writeJson(kind.sample(n)) };
  }
}

function counted(stream: Readable, bytesRead: (bytes: number) => void): Readable {
  return Readable.from(
    (async function* () {
      for await (const part of stream as AsyncIterable<Buffer>) {
        bytesRead(part.length);
        yield part;
      }
    })(),
    { objectMode: false },
  );
}
