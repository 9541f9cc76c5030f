import { realpath, writeFile } from 'node:fs/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { AppError, errorMessage } from '../../shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { httpUrl, JSON_OPTION, oneCharacter, wholeNumber } from '../options.ts';
import { isMember, memberNames } from '../send/csv-header.ts';
import { DATE_FORMAT_TEXT, type DateFormat, isTimeZone, parseDateFormat } from '../send/dates.ts';
import { formatOf, requireFile, STDIN, STDIN_NAME } from '../send/input.ts';
import { FORMATS, type Mapping } from '../send/input-line.ts';
import { KIND_BY_NAME, SEND_KINDS, type SendKind } from '../send/kinds.ts';
import { writeRefusedLines } from '../send/refused-lines.ts';
import { type FileReport, printReport, reasonsCsv } from '../send/report.ts';
import { CONCURRENCY, type SendFileOptions, STATE_SUFFIX, sendFile } from '../send/send-file.ts';
import { findTarget, TARGET_SETTINGS, type TargetOptions } from '../send/target.ts';
import { quoted } from '../shell.ts';

interface SendOptions extends TargetOptions, SendFileOptions {
  readonly refused?: string;
  readonly reasons?: string;
  readonly dryRun?: boolean;
}

export function addSendCommand(program: Command, context: CommandContext): void {
  const send = program.command('send').description('send records from files, or samples, through the API');
  for (const kind of SEND_KINDS) addKindCommand(send, context, KIND_BY_NAME[kind]);
}

function addKindCommand(send: Command, context: CommandContext, kind: SendKind): void {
  const command = send
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
    .option(
      '--map <column=member>',
      `send a CSV column with another name as this member, such as "Employee ID=${kind.entityMember}"; repeatable`,
      mapping(kind),
    )
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
    .option('--dry-run', 'check the files, report what would be refused, and send nothing')
    .option(...JSON_OPTION)
    .addHelpText('after', helpOf(kind))
    .action((files: string[], options: SendOptions, command: Command) =>
      run(context, command, kind, files, options),
    );
  if (!hasTimes(kind)) return;
  command
    .option(
      '--date-format <format>',
      `format of times in CSV files, ${DATE_FORMAT_TEXT}; repeatable`,
      dateFormat,
    )
    .option(
      '--time-zone <name>',
      'time zone of times in that format, such as Europe/Berlin (default: UTC)',
      timeZone,
    );
}

/** Parses `COLUMN=MEMBER` and adds it to the earlier mappings. */
function mapping(kind: SendKind) {
  return (text: string, before: readonly Mapping[] = []): Mapping[] => {
    const at = text.lastIndexOf('=');
    const [column, member] = [text.slice(0, Math.max(at, 0)).trim(), text.slice(at + 1).trim()];
    if (column === '') {
      throw new InvalidArgumentError(`It must be COLUMN=MEMBER, such as "Employee ID=${kind.entityMember}".`);
    }
    if (!isMember(member, kind)) {
      throw new InvalidArgumentError(`"${member}" is not a member of ${kind.name}: ${memberNames(kind)}.`);
    }
    return [...before, { column, member }];
  };
}

/** Parses a date format and adds it to the earlier ones. */
function dateFormat(text: string, before: readonly DateFormat[] = []): DateFormat[] {
  const format = parseDateFormat(text);
  if (!format) throw new InvalidArgumentError(`It must be ${DATE_FORMAT_TEXT}.`);
  return [...before, format];
}

function timeZone(name: string): string {
  if (isTimeZone(name)) return name;
  throw new InvalidArgumentError(
    'It must be the name of a time zone, such as Europe/Berlin or America/New_York.',
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
  const target = options.dryRun ? undefined : await findTarget(options, context.config(TARGET_SETTINGS));
  const { signal } = interruption(context);
  const reports: FileReport[] = [];
  for (const file of options.sample === undefined ? files : [undefined]) {
    const report = await sendFile(context, { kind, target, ...(file && { file }) }, options, signal);
    reports.push(report);
    if (options.refused && !report.stopped) await writeRefused(kind, report, options.refused, options);
    if (!options.json) {
      printReport(context, report, { refusedFile: options.refused, again: optionsAgain(options) });
    }
    if (report.stopped) break;
  }
  if (options.json) context.printJson({ url: target?.url ?? null, files: reports.map(reportJson) });
  if (options.reasons !== undefined) await writeReasons(options.reasons, reports);
  const stopped = reports.at(-1)?.stopped;
  if (stopped) throw stopped;
  const refused = reports.reduce((sum, { refusedCount }) => sum + refusedCount, 0);
  if (refused > 0)
    throw new AppError(
      'LINES_REFUSED',
      options.dryRun
        ? `${refused} of the ${kind.name} would be refused`
        : `${refused} of the ${kind.name} ${refused === 1 ? 'was' : 'were'} refused`,
    );
}

/** Returns the options that the file with the refused lines needs too, each with a space in front. */
function optionsAgain(options: SendOptions): string {
  const { delimiter, map = [], dateFormat = [] } = options;
  const again: [name: string, value: string | undefined][] = [
    ['format', options.format],
    ['delimiter', delimiter === ',' ? undefined : delimiter === '\t' ? 'tab' : delimiter],
    ...map.map(({ column, member }) => ['map', `${column}=${member}`] as [string, string]),
    ...dateFormat.map(({ text }) => ['date-format', text] as [string, string]),
    ['time-zone', options.timeZone],
    ['id-column', options.idColumn],
  ];
  return again
    .flatMap(([name, value]) => (value === undefined ? [] : ` --${name} ${quoted(value)}`))
    .join('');
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
  if (options.timeZone !== undefined && options.dateFormat === undefined)
    return '--time-zone needs --date-format';
  const isForCsv = options.map ?? options.dateFormat;
  const other = files.find((file) => (options.format ?? formatOf(file) ?? 'csv') !== 'csv');
  if (isForCsv && other !== undefined) {
    return `${options.map ? '--map' : '--date-format'} is for CSV files, and ${other} is not one`;
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
  const { delimiter, format = formatOf(file)! } = options;
  await writeRefusedLines(file, target, { format, kind, delimiter, refused });
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
  const { name, entityMember, columns, attributes, onceForAll } = kind;
  const names = [...Object.keys(columns), ...(attributes ? ['attributes.NAME'] : [])].join(', ');
  return `
Files:
  CSV: the header names the members, or --map does. Entries of lists are separated by ';'. An empty cell leaves its
  member out. Blank lines and sep=; before the header are skipped.${hasTimes(kind) ? TIMES_HELP : ''} Columns:
${names
  .replace(/(.{1,100})(, |$)/g, '    $1$2\n')
  .replaceAll(' \n', '\n')
  .trimEnd()}
  NDJSON: one JSON object per line. JSON: an array of objects.

Refused lines:
  Each is reported with its number and reason, the other lines are sent, and the exit code is 1. --refused FILE writes
  those lines to FILE: fix them there and send FILE. A CSV file has line and reason in front, in columns that are not
  sent. After a CSV quote that is misplaced or never closed, the rest of the file is refused too, as it may be part of a
  cell. --dry-run finds refused lines before anything is sent.

Duplicates:
  ${duplicatesOf(kind).replaceAll('\n', '\n  ')}

Sending again:
  ${againOf(kind).replaceAll('\n', '\n  ')}
  The report counts records that are stored already as already known.
  A stopped or killed command resumes when the same command runs again.

Example: ./sluice send ${name} ${name}.csv --refused refused.csv
         ./sluice send ${name} export.csv --delimiter ';' --map "Our ID=${entityMember}" --dry-run
         ./sluice send ${name} --sample 100
         ./sluice send ${name} - --format csv${onceForAll ? '' : ' --delivery 2026-01-31'} < ${name}.csv`;
}

const TIMES_HELP = ` Times are RFC 3339, or as
  --date-format and --time-zone say.`;

const hasTimes = ({ columns }: SendKind) => Object.values(columns).includes('time');

function duplicatesOf({ idOf, idMember, entityMember, onceForAll }: SendKind): string {
  if (!idOf || onceForAll) return 'Lines with the same content are stored once, and reported as duplicates.';
  return `A line that repeats the previous line of its ${entityMember}, or a line with the same ${idMember}, is stored once and reported
as a duplicate. A change back to earlier values is not a duplicate.`;
}

function againOf({ name, idMember, onceForAll, idOf }: SendKind): string {
  if (!idOf) return `The ${idMember} identifies a record: sending it again changes nothing.`;
  if (onceForAll) {
    return `A record without ${idMember} gets an id derived from its content: sending it again, from any file, changes nothing.`;
  }
  return `A record without ${idMember} gets an id derived from its content and the delivery, which is the whole file unless
--delivery names it. The same file again changes nothing. Any other file is a new report of all its ${name},
including unchanged ones. A file with fixed lines is another file: with the --delivery that the report named,
only the fixed lines are new. A fixed line is stored last: if a later line about the same record was accepted before,
the fixed line overwrites it. The report names these lines.`;
}
