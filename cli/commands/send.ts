import { realpath, writeFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import { AppError, errorMessage } from '../../shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { httpUrl, JSON_OPTION, oneCharacter, wholeNumber } from '../options.ts';
import { helpOf } from '../send/help.ts';
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
  const send = program.command('send').description('send records through the API, from files or made up');
  for (const kind of SEND_KINDS) addKindCommand(send, context, KIND_BY_NAME[kind]);
}

function addKindCommand(send: Command, context: CommandContext, kind: SendKind): void {
  send
    .command(kind.name)
    .argument('[file...]', 'CSV, NDJSON or JSON files; - is standard input')
    .description(`send ${kind.about}`)
    .option('--sample <n>', `send n made-up ${kind.name} instead`, wholeNumber(1, 10_000_000))
    .addOption(new Option('--format <format>', "where a file's name does not tell").choices(FORMATS))
    .option('--delimiter <character>', 'what separates the cells of a CSV file, or tab', oneCharacter, ',')
    .option('--id-column <name>', `column or member whose value is the ${kind.idMember}`)
    .option('--delivery <name>', 'what ids are made from besides the content (default: the whole file)')
    .option('--url <url>', 'address of the gateway (default: SLUICE_URL, or the embedded instance)', httpUrl)
    .option('--key-id <id>', 'id of the API key (default: SLUICE_API_KEY_ID, or the demo key)')
    .option('--key-secret <secret>', 'its secret (default: SLUICE_API_KEY_SECRET)')
    .option(
      '--concurrency <n>',
      `requests under way at a time (default: ${kind.many ? CONCURRENCY.many : CONCURRENCY.single})`,
      wholeNumber(1, 256),
    )
    .option('--retry-for <seconds>', 'how long a request is tried again', wholeNumber(0, 86_400), 300)
    .option('--state <file>', `where the progress is kept (default: FILE${STATE_SUFFIX})`)
    .option('--no-resume', 'begin at the first line, whatever an earlier run has sent')
    .option('--refused <file>', 'write the refused lines to a file, to mend and send them')
    .option('--reasons <file>', 'write why lines were refused to a CSV file: file, line, reason')
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
  // Nothing is sent where a later file is missing.
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
    return 'standard input needs --delivery NAME (the same when it is sent again, another for what is reported later), or --id-column';
  }
  const unclear = files.find((file) => (options.format ?? formatOf(file)) === undefined);
  if (unclear === undefined) return undefined;
  return `the format of ${unclear === STDIN ? STDIN_NAME : unclear} is not clear: give --format ${FORMATS.join('|')}`;
}

/** Only the refused lines would be left of it. */
async function overwritten(files: readonly string[], options: SendOptions): Promise<string | undefined> {
  const outputs = [options.refused, options.reasons].flatMap((file) => file ?? []);
  const real = (file: string) => realpath(file).catch(() => undefined);
  const inputs = await Promise.all(files.map(real));
  for (const output of outputs) {
    const path = await real(output);
    if (path !== undefined && inputs.includes(path)) return `${output} is what is sent: name another file`;
  }
  return undefined;
}

function interruption(context: CommandContext): AbortController {
  const controller = new AbortController();
  void context
    .untilInterrupted()
    .then(() =>
      controller.abort(new AppError('SEND_STOPPED', 'stopped: run the same command again to go on')),
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
