import { realpath, writeFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import { AppError, errorMessage } from '../../shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { httpUrl, JSON_OPTION, oneCharacter, wholeNumber } from '../options.ts';
import { formatOf, requireFile, STDIN, STDIN_NAME } from '../send/input.ts';
import { FORMATS } from '../send/input-line.ts';
import { KIND_BY_NAME, SEND_KINDS, type SendKind } from '../send/kinds.ts';
import { writeRefusedLines } from '../send/refused-lines.ts';
import { type FileReport, printReport, reasonsCsv } from '../send/report.ts';
import { CONCURRENCY, type SendFileOptions, STATE_SUFFIX, sendFile } from '../send/send-file.ts';
import { findTarget, TARGET_SETTINGS, type TargetOptions } from '../send/target.ts';

interface SendOptions extends TargetOptions, SendFileOptions {
  readonly refused?: string;
  readonly reasons?: string;
}

export function addSendCommand(program: Command, context: CommandContext): void {
  const send = program.command('send').description('send records from files, or samples, through the API');
  for (const kind of SEND_KINDS) addKindCommand(send, context, KIND_BY_NAME[kind]);
}

function addKindCommand(send: Command, context: CommandContext, kind: SendKind): void {
  send
    .command(kind.name)
    .argument('[file...]', 'CSV, NDJSON or JSON files; - is standard input')
    .description(`send ${kind.about}`)
    .option('--sample <n>', `send n sample ${kind.name} in place of files`, wholeNumber(1, 10_000_000))
    .addOption(
      new Option('--format <format>', 'the format, if the name of the file does not show it').choices(
        FORMATS,
      ),
    )
    .option('--delimiter <character>', 'separator of the cells of a CSV file, or tab', oneCharacter, ',')
    .option('--id-column <name>', `column or member whose value is the ${kind.idMember}`)
    .option(
      '--delivery <name>',
      'part of the derived ids in addition to the content (default: the whole file)',
    )
    .option('--url <url>', 'address of the gateway (default: SLUICE_URL, or the embedded instance)', httpUrl)
    .option('--key-id <id>', 'id of the API key (default: SLUICE_API_KEY_ID, or the demo key)')
    .option('--key-secret <secret>', 'its secret (default: SLUICE_API_KEY_SECRET)')
    .option(
      '--concurrency <n>',
      `maximum number of requests in flight (default: ${kind.many ? CONCURRENCY.many : CONCURRENCY.single})`,
      wholeNumber(1, 256),
    )
    .option('--retry-for <seconds>', 'how long a request is retried', wholeNumber(0, 86_400), 300)
    .option('--state <file>', `file for the progress (default: FILE${STATE_SUFFIX})`)
    .option('--no-resume', 'start at the first line and ignore the progress of an earlier run')
    .option('--refused <file>', 'write the refused lines to a file, to fix and send them')
    .option('--reasons <file>', 'write the reasons of refused lines to a CSV file: file, line, reason')
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
  const wrong = usageProblem(kind, files, options) ?? (await overwritten(files, options));
  if (wrong !== undefined) command.error(`error: ${wrong}`, { exitCode: 2 });
  // Nothing is sent if a later file is missing.
  for (const file of files) if (file !== STDIN) await requireFile(file);
  const target = await findTarget(options, context.config(TARGET_SETTINGS));
  const { signal } = interruption(context);
  const reports: FileReport[] = [];
  for (const file of options.sample === undefined ? files : [undefined]) {
    const report = await sendFile(context, { kind, target, ...(file && { file }) }, options, signal);
    reports.push(report);
    if (options.refused && !report.stopped) await writeRefused(kind, report, options.refused, options);
    if (!options.json) printReport(context, report, options.refused);
    if (report.stopped) break;
  }
  if (options.json) context.printJson({ url: target.url, files: reports.map(reportJson) });
  if (options.reasons !== undefined) await writeReasons(options.reasons, reports);
  const stopped = reports.at(-1)?.stopped;
  if (stopped) throw stopped;
  const refused = reports.reduce((sum, { refusedCount }) => sum + refusedCount, 0);
  if (refused > 0)
    throw new AppError(
      'LINES_REFUSED',
      `${refused} of the ${kind.name} ${refused === 1 ? 'was' : 'were'} refused`,
    );
}

function usageProblem(kind: SendKind, files: readonly string[], options: SendOptions): string | undefined {
  if (options.sample !== undefined) return files.length > 0 ? 'give files or --sample, not both' : undefined;
  if (files.length === 0) return 'give files to send, or --sample N';
  if (options.state !== undefined && files.length > 1) return '--state is for one file';
  const fromStdin = files.includes(STDIN);
  if (options.refused !== undefined && (files.length > 1 || fromStdin)) {
    return '--refused is for one file, and not for standard input, which cannot be read again';
  }
  if (fromStdin && !kind.onceForAll && options.delivery === undefined && options.idColumn === undefined) {
    return 'standard input needs --id-column, or --delivery NAME (the same name to send it again, another for a later report)';
  }
  const unclear = files.find((file) => (options.format ?? formatOf(file)) === undefined);
  if (unclear === undefined) return undefined;
  return `the format of ${unclear === STDIN ? STDIN_NAME : unclear} is unknown: set --format ${FORMATS.join('|')}`;
}

/**
 * Returns the problem if an output file is also an input, since writing it would lose the accepted
 * lines.
 */
async function overwritten(files: readonly string[], options: SendOptions): Promise<string | undefined> {
  const outputs = [options.refused, options.reasons].flatMap((file) => file ?? []);
  const real = (file: string) => realpath(file).catch(() => undefined);
  const inputs = await Promise.all(files.map(real));
  for (const output of outputs) {
    const path = await real(output);
    if (path !== undefined && inputs.includes(path)) return `${output} is an input: set another file`;
  }
  return undefined;
}

function interruption(context: CommandContext): AbortController {
  const controller = new AbortController();
  void context
    .untilInterrupted()
    .then(() =>
      controller.abort(new AppError('SEND_STOPPED', 'stopped: run the same command again to continue')),
    );
  return controller;
}

function reportJson({ stopped, ...report }: FileReport) {
  return { ...report, stopped: stopped?.message ?? null };
}

async function writeRefused(
  kind: SendKind,
  { file, refused }: FileReport,
  target: string,
  options: SendOptions,
): Promise<void> {
  const lines = refused.map(({ line }) => line);
  const { delimiter, format = formatOf(file)! } = options;
  await writeRefusedLines(file, target, { format, kind, delimiter, lines });
}

async function writeReasons(file: string, reports: readonly FileReport[]): Promise<void> {
  await writeFile(file, reasonsCsv(reports)).catch((error) => {
    throw new AppError(
      'REASONS_UNWRITABLE',
      `the reasons cannot be written to ${file}: ${errorMessage(error)}`,
    );
  });
}

/** Returns the help of `sluice send KIND` below the options. */
function helpOf(kind: SendKind): string {
  const columns = [...Object.keys(kind.columns), ...(kind.attributes ? ['attributes.NAME'] : [])].join(', ');
  return `
Files:
  CSV: the header names the members. Entries of lists are separated by ';'. An empty cell leaves its member out. Blank
  lines and sep=; before the header are skipped. Columns:
${columns
  .replace(/(.{1,100})(, |$)/g, '    $1$2\n')
  .replaceAll(' \n', '\n')
  .trimEnd()}
  NDJSON: one JSON object per line. JSON: an array of objects.

Refused lines:
  Each is reported with its number and reason, the other lines are sent, and the exit code is 1. --refused FILE writes
  those lines to FILE, below the CSV header: fix them there and send FILE. After a CSV quote that is misplaced or never
  closed, the rest of the file is refused too, as it may be part of a cell.

Sending again:
  ${againOf(kind).replaceAll('\n', '\n  ')}
  A stopped or killed command resumes when the same command runs again.

Example: ./sluice send ${kind.name} ${kind.name}.csv --refused refused.csv
         ./sluice send ${kind.name} --sample 100
         ./sluice send ${kind.name} - --format csv${kind.onceForAll ? '' : ' --delivery 2026-01-31'} < ${kind.name}.csv`;
}

function againOf({ name, idMember, onceForAll, idOf }: SendKind): string {
  if (!idOf) return `The ${idMember} identifies a record: sending it again changes nothing.`;
  if (onceForAll) {
    return `A record without ${idMember} gets an id derived from its content: sending it again, from any file, changes nothing.`;
  }
  return `A record without ${idMember} gets an id derived from its content and the delivery, which is the whole file unless
--delivery names it. The same file again changes nothing. Any other file is a new report of all its ${name},
including unchanged ones. A file with fixed lines is another file: with the --delivery that the report named,
only the fixed lines are new.`;
}
