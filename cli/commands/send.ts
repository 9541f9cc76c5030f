import { stat, writeFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { writeJson } from '../../shared/contracts/json.ts';
import { AppError, errorMessage } from '../../shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { createGatewayClient, type SendTarget } from '../send/gateway-client.ts';
import { FORMATS, type Format, formatOf, type InputLine, openFile, readLines } from '../send/input.ts';
import { KIND_BY_NAME, SEND_KINDS, type SendKind } from '../send/kinds.ts';
import { createProgressBar } from '../send/progress-bar.ts';
import { createProgressFile } from '../send/progress-file.ts';
import { type FileReport, printReport, refusedCsv } from '../send/report.ts';
import { digestOf, sendSource } from '../send/send-source.ts';
import { findTarget, TARGET_SETTINGS, type TargetOptions } from '../send/target.ts';

interface SendOptions extends TargetOptions {
  readonly sample?: number;
  readonly format?: Format;
  readonly delimiter: string;
  readonly idColumn?: string;
  readonly delivery?: string;
  readonly concurrency?: number;
  readonly retryFor: number;
  readonly state?: string;
  readonly resume: boolean;
  readonly refused?: string;
  readonly json?: boolean;
}

/** Requests under way: those with many items are few and large. */
const CONCURRENCY = { many: 4, single: 16 };
const STDIN = '-';
const STATE_SUFFIX = '.sluice-state';
const DELIVERY_LENGTH = 16;

export function addSendCommand(program: Command, context: CommandContext): void {
  const send = program.command('send').description('send records through the API, from files or made up');
  for (const kind of SEND_KINDS) addKindCommand(send, context, KIND_BY_NAME[kind]);
}

function addKindCommand(send: Command, context: CommandContext, kind: SendKind): void {
  send
    .command(kind.name)
    .argument('[file...]', 'CSV, NDJSON or JSON files; - is standard input')
    .description(`send ${kind.name}`)
    .option('--sample <n>', `send n made-up ${kind.name} instead`, wholeNumber(1, 10_000_000))
    .addOption(new Option('--format <format>', "where a file's name does not tell").choices(FORMATS))
    .option('--delimiter <character>', 'what separates the cells of a CSV file', oneCharacter, ',')
    .option('--id-column <name>', `column or member whose value is the ${kind.idMember}`)
    .option('--delivery <name>', 'what ids are made from besides the content (default: the whole file)')
    .option('--url <url>', 'address of the gateway (default: SLUICE_URL, or the embedded instance)', httpUrl)
    .option('--key-id <id>', 'id of the API key (default: SLUICE_API_KEY_ID, or the demo key)')
    .option('--key-secret <secret>', 'its secret (default: SLUICE_API_KEY_SECRET)')
    .option('--concurrency <n>', 'requests under way at a time', wholeNumber(1, 256))
    .option('--retry-for <seconds>', 'how long a request is tried again', wholeNumber(0, 86_400), 300)
    .option('--state <file>', `where the progress is kept (default: FILE${STATE_SUFFIX})`)
    .option('--no-resume', 'begin at the first line, whatever an earlier run has sent')
    .option('--refused <file>', 'write the refused lines and the reasons to a CSV file')
    .option(...JSON_OPTION)
    .addHelpText('after', helpOf(kind))
    .action((files: string[], options: SendOptions, command: Command) =>
      run(context, command, kind, files, options),
    );
}

async function run(
  context: CommandContext,
  command: Command,
  kind: SendKind,
  files: readonly string[],
  options: SendOptions,
): Promise<void> {
  const wrong = usageProblem(files, options);
  if (wrong !== undefined) command.error(`error: ${wrong}`, { exitCode: 2 });
  const target = await findTarget(options, context.config(TARGET_SETTINGS));
  const reports: FileReport[] = [];
  for (const file of options.sample === undefined ? files : [undefined]) {
    const report = await sendOne(context, kind, target, file, options);
    reports.push(report);
    if (!options.json) printReport(context, report);
  }
  if (options.json) context.printJson({ url: target.url, files: reports });
  if (options.refused !== undefined) await writeRefused(options.refused, reports);
  const refused = reports.reduce((sum, { refusedCount }) => sum + refusedCount, 0);
  if (refused > 0) throw new AppError('LINES_REFUSED', `${refused} ${kind.name} were refused`);
}

function usageProblem(files: readonly string[], options: SendOptions): string | undefined {
  if (options.sample !== undefined) return files.length > 0 ? 'give files or --sample, not both' : undefined;
  if (files.length === 0) return 'give files to send, or --sample N';
  if (options.state !== undefined && files.length > 1) return '--state is for one file';
  const unclear = files.find((file) => (options.format ?? formatOf(file)) === undefined);
  if (unclear === undefined) return undefined;
  return `the format of ${unclear === STDIN ? 'standard input' : unclear} is not clear: give --format ${FORMATS.join('|')}`;
}

async function sendOne(
  context: CommandContext,
  kind: SendKind,
  target: SendTarget,
  file: string | undefined,
  options: SendOptions,
): Promise<FileReport> {
  const startedMs = performance.now();
  const isFile = file !== undefined && file !== STDIN;
  const digest = isFile ? await digestOf(await openFile(file)) : '';
  const delivery = kind.onceForAll ? '' : (options.delivery ?? digest.slice(0, DELIVERY_LENGTH));
  const name = file === undefined ? 'samples' : file === STDIN ? 'standard input' : file;
  const size = isFile ? (await stat(file)).size : (options.sample ?? 0);
  const bar = createProgressBar(options.json ? { write: () => {} } : context.stderr, name, size);
  const warn = (sentence: string) => context.stderr.write(`sluice: ${sentence}\n`);
  const retryForMs = options.retryFor * 1000;
  const elapsedMs = () => performance.now();
  const run = { kind: kind.name, url: target.url, apiKeyId: target.apiKeyId, file: digest, delivery };
  try {
    const result = await sendSource({
      kind,
      lines:
        file === undefined
          ? samples(kind, options.sample!, bar.bytesRead)
          : readLines(isFile ? await openCounted(file, bar.bytesRead) : process.stdin, {
              format: options.format ?? formatOf(file)!,
              kind,
              idColumn: options.idColumn,
              delimiter: options.delimiter,
              warn,
            }),
      client: createGatewayClient({
        target,
        fetch,
        delay: (ms, signal) => delay(ms, undefined, { signal }),
        elapsedMs,
        retryForMs,
      }),
      delivery,
      idColumn: options.idColumn,
      concurrency: options.concurrency ?? (kind.many ? CONCURRENCY.many : CONCURRENCY.single),
      retryForMs,
      elapsedMs,
      pause: (ms) => delay(ms),
      progressFile: isFile ? createProgressFile(options.state ?? `${file}${STATE_SUFFIX}`, run) : undefined,
      resume: options.resume,
      onProgress: bar.counts,
    });
    return {
      file: name,
      kind: kind.name,
      delivery,
      ...result,
      durationMs: Math.round(performance.now() - startedMs),
    };
  } finally {
    bar.stop();
  }
}

async function* samples(kind: SendKind, count: number, made: (n: number) => void): AsyncGenerator<InputLine> {
  for (let n = 1; n <= count; n++) {
    made(1);
    yield { number: n, text: writeJson(kind.sample(n)) };
  }
}

async function openCounted(file: string, bytesRead: (bytes: number) => void): Promise<Readable> {
  const stream = await openFile(file);
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

async function writeRefused(file: string, reports: readonly FileReport[]): Promise<void> {
  await writeFile(file, refusedCsv(reports)).catch((error) => {
    throw new AppError(
      'REFUSED_UNWRITABLE',
      `the refused lines cannot be written to ${file}: ${errorMessage(error)}`,
    );
  });
}

function oneCharacter(text: string): string {
  if (text === '\\t' || text === 'tab') return '\t';
  if (text.length === 1 && text !== '"' && text !== '\n') return text;
  throw new InvalidArgumentError('It must be one character, or tab.');
}

function httpUrl(text: string): string {
  if (/^https?:\/\/[^\s/?#]+[^\s?#]*$/.test(text)) return text;
  throw new InvalidArgumentError('It must be an http:// or https:// address.');
}

function helpOf(kind: SendKind): string {
  const columns = [...Object.keys(kind.columns), ...(kind.attributes ? ['attributes.NAME'] : [])].join(', ');
  const ids = kind.idOf
    ? `A record without ${kind.idMember} gets one made from its content${kind.onceForAll ? '' : ' and the delivery'}, so that sending the same file again\nchanges nothing.`
    : `The ${kind.idMember} makes a record the same one, so that sending the same file again changes nothing.`;
  return `
CSV: the first line names the members; lists are separated by ';', an empty cell leaves its member out. Columns:
${columns.replace(/(.{1,100})(, |$)/g, '$1$2\n').trimEnd()}
NDJSON: a JSON object a line. JSON: an array of objects.
${ids}
A refused line is reported with its number and reason, the others go on; then the exit code is 1.
What was interrupted goes on where it stopped when the same command runs again.

Example: npx sluice send ${kind.name} ${kind.name}.csv
         npx sluice send ${kind.name} --sample 100`;
}
