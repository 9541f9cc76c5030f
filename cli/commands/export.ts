import { extname } from 'node:path';
import { type Command, Option } from 'commander';
import { DATABASE_SETTINGS } from '../../shared/config/config.ts';
import { topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import { EXPORT_NAMES, EXPORTED_KINDS, type ExportName } from '../../shared/postgres/export-kinds.ts';
import {
  formatExportPositions,
  parseExportPositions,
  readExportEnd,
} from '../../shared/postgres/export-positions.ts';
import { whileLocked } from '../../shared/postgres/named-lock.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { type CommandContext, OUTPUT_CLOSED } from '../context.ts';
import { requireNoneLater, requireStored, startOf } from '../export/cursor.ts';
import { type ExportTarget, exportRows, nameOutput, openOutput } from '../export/export-file.ts';
import { CREATE_ENCODER, EXPORT_FORMATS, type ExportFormat, formatOfFile } from '../export/formats.ts';
import { showProgress } from '../export/progress.ts';
import { createStateFile, type ExportIdentity, STATE_SUFFIX, writeCursorFile } from '../export/state-file.ts';
import { markFinished, markUnfinished, requireNoneUnfinished } from '../export/unfinished.ts';
import { dateOrTimeMs, JSON_OPTION } from '../options.ts';
import { quoted } from '../shell.ts';
import { requireTenant } from '../tenant-lookup.ts';

const ABOUT: Readonly<Record<ExportName, string>> = {
  messages: 'MessageSent events, with their conversation as it is now',
  'agent-history': 'every accepted record of agents',
  'conversation-history': 'every accepted record of conversations',
  'automation-events': 'events of the automated agent',
  'credential-submissions': 'submissions of credentials, without the credentials',
};

interface ExportOptions {
  readonly tenant: string;
  readonly format?: ExportFormat;
  readonly from?: number;
  readonly to?: number;
  readonly output?: string;
  readonly cursorFile?: string;
  readonly resume: boolean;
  readonly json?: boolean;
}

export function addExportCommand(program: Command, context: CommandContext): void {
  const group = program.command('export').description('write all stored records of a kind to a file');
  group.configureOutput({ outputError: (text, write) => write(withHistory(text)) });
  for (const name of EXPORT_NAMES) {
    group
      .command(name)
      .description(`export ${ABOUT[name]}`)
      .requiredOption('--tenant <name>', 'the tenant of the records')
      .addOption(
        new Option(
          '--format <format>',
          'the format (default: as the name of the file shows, or ndjson)',
        ).choices(EXPORT_FORMATS),
      )
      .option(
        '--from <time>',
        'only records that were accepted at this time or UTC day, or later',
        dateOrTimeMs,
      )
      .option('--to <time>', 'only records that were accepted before this time or UTC day', dateOrTimeMs)
      .option('--output <file>', 'the file to write (default: standard output)')
      .option(
        '--cursor-file <file>',
        'start after the export that wrote this file, if it exists, and write it at the end',
      )
      .option('--no-resume', 'write the file from its start, and ignore an interrupted export to it')
      .option(...JSON_OPTION)
      .addHelpText('after', helpOf(name))
      .action((options: ExportOptions, command: Command) => run(context, command, name, options));
  }
}

async function run(
  context: CommandContext,
  command: Command,
  name: ExportName,
  options: ExportOptions,
): Promise<void> {
  const format = options.format ?? formatOfFile(options.output) ?? 'ndjson';
  const wrong = usageProblem(options, format);
  if (wrong !== undefined) command.error(`error: ${wrong}`, { exitCode: 2 });
  const { cursorFile, output = null } = options;
  if (cursorFile !== undefined) await requireNoneUnfinished(cursorFile, output);
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config([...DATABASE_SETTINGS, 'SLUICE_TOPIC_PREFIX']);
  const topic = topicOf(prefix, EXPORTED_KINDS[name].kind);
  const done = await context.withPool((pool) =>
    withOutput(pool, options.output, () => exportAll(context, pool, { name, topic, format }, options)),
  );
  if (options.json) return context.printJson(done);
  const lines = [
    `Exported ${done.rows} rows of ${name}${done.output === null ? '' : ` to ${done.output}`}.`,
    ...(done.cursorFile === null
      ? []
      : [
          `To export what is stored later: ./sluice export ${name} --tenant ${options.tenant} --cursor-file ${quoted(done.cursorFile)} --output FILE`,
        ]),
  ];
  // Standard output has the rows.
  if (done.output === null) context.stderr.write(`${lines.join('\n')}\n`);
  else context.print(...lines);
}

/** Runs `work` while no other export writes the file. Throws AppError `OUTPUT_IN_USE`. */
async function withOutput<T>(pool: Pool, output: string | undefined, work: () => Promise<T>): Promise<T> {
  if (output === undefined) return await work();
  const done = await whileLocked(pool, `export to ${await nameOutput(output)}`, work);
  if (done) return done.result;
  throw new AppError(
    'OUTPUT_IN_USE',
    `another export is writing ${output}: wait until it has ended, or choose another file`,
  );
}

interface Export {
  readonly name: ExportName;
  readonly topic: string;
  readonly format: ExportFormat;
}

async function exportAll(
  context: CommandContext,
  pool: Pool,
  { name, topic, format }: Export,
  options: ExportOptions,
) {
  const { tenantId } = await requireTenant(pool, options.tenant);
  const { output = null, cursorFile = null } = options;
  const [fromMs, toMs] = [options.from ?? null, options.to ?? null];
  const identity: ExportIdentity = { tenantId, kind: name, format, fromMs, toMs, cursorFile };
  const stateFile = output === null ? undefined : createStateFile(output, identity);
  const resumed = options.resume ? await stateFile?.read() : undefined;
  const now = await readExportEnd(pool, topic);
  const from = resumed ? new Map() : await startOf(cursorFile, { tenantId, kind: name }, now);
  const end = resumed ? parseExportPositions(resumed.end)! : now;
  if (resumed) requireStored(end, now, stateFile!.path, 'start again with --no-resume');
  if (resumed && cursorFile !== null) await requireNoneLater(cursorFile, end, output!);
  if (cursorFile !== null && output !== null) {
    await markUnfinished(cursorFile, { output, command: commandOf(name, options) });
  }
  const target =
    output === null
      ? standardOutput(context)
      : await openOutput(output, { bytes: resumed?.bytes, replace: !options.resume });
  const progress = showProgress(context, name, {
    from: resumed ? parseExportPositions(resumed.next)! : from,
    end,
    isShown: !options.json,
  });
  if (resumed) progress.say(`continuing ${output} after ${resumed.rows} rows`);
  try {
    const written = await exportRows({
      pool,
      kind: EXPORTED_KINDS[name],
      query: { tenantId, end, accepted: { fromMs: options.from, toMs: options.to } },
      from,
      target,
      createEncoder: CREATE_ENCODER[format],
      stateFile,
      resumed,
      elapsedMs: () => performance.now(),
      signal: interruption(context, output),
      onProgress: progress.update,
    });
    const isWhole = fromMs === null && toMs === null;
    const cursorWritten = cursorFile ?? (isWhole && output !== null ? `${output}${CURSOR_SUFFIX}` : null);
    if (cursorWritten !== null) {
      const positions = formatExportPositions(end);
      await writeCursorFile(cursorWritten, { tenantId, kind: name, positions });
    }
    // Last, so that a run that is killed before is continued.
    await stateFile?.remove();
    if (cursorFile !== null && output !== null) await markFinished(cursorFile);
    return { tenant: options.tenant, kind: name, format, output, ...written, cursorFile: cursorWritten };
  } finally {
    progress.stop();
    await target.close();
  }
}

/** Returns the command of an export with a cursor file. */
function commandOf(name: ExportName, { tenant, cursorFile, output, format }: ExportOptions): string {
  const formatOption = format === undefined ? '' : ` --format ${format}`;
  return `./sluice export ${name} --tenant ${tenant} --cursor-file ${quoted(cursorFile!)} --output ${quoted(output!)}${formatOption}`;
}

/** The suffix of the file with the end of an export, unless --cursor-file names one. */
const CURSOR_SUFFIX = '.cursor';

function standardOutput(context: CommandContext): ExportTarget {
  return {
    append: async (data) => context.printBytes(data),
    flush: async () => {},
    close: async () => {},
  };
}

function interruption(context: CommandContext, output: string | null): AbortSignal {
  const controller = new AbortController();
  const next = output === null ? '' : ': run the same command again to continue';
  if (output === null) {
    const closed = new AppError(OUTPUT_CLOSED, 'standard output is closed');
    void context.outputClosed.then(() => controller.abort(closed));
  }
  void context
    .untilInterrupted()
    .then(() => controller.abort(new AppError('EXPORT_STOPPED', `stopped${next}`)));
  return controller.signal;
}

/** Adds the export that has the records of agents or conversations to the error of an unknown command. */
function withHistory(error: string): string {
  return error.replace(
    /(unknown command '(agent|conversation)s')\n.*/s,
    '$1: their records are in the export $2-history\n',
  );
}

function usageProblem(options: ExportOptions, format: ExportFormat): string | undefined {
  const { from, to, output, cursorFile, json } = options;
  if (json && output === undefined) return '--json needs --output: standard output has the rows otherwise';
  if (from !== undefined && to !== undefined && from >= to) return '--to must be after --from';
  if (cursorFile !== undefined && (from ?? to) !== undefined) {
    return '--cursor-file is for all records, not for --from or --to';
  }
  const shown = formatOfFile(output);
  if (shown && shown !== format) return `${output} is not the name of a ${format} file`;
  const extension = extname(output ?? '');
  if (extension !== '' && !shown && options.format === undefined) {
    return `the name ${output} shows no format: add --format, or end it with ${EXPORT_FORMATS.map((one) => `.${one}`).join(', ')}`;
  }
  return undefined;
}

/** Returns the help of `sluice export KIND` below the options. */
function helpOf(name: ExportName): string {
  return `
Rows:
  They have the columns of the view ${EXPORTED_KINDS[name].view} of the schema analytics, in the order in which workers read the
  records. The export ends with what was stored when it began.

Interruptions:
  A stopped or killed export continues when the same command runs again, with its progress in FILE${STATE_SUFFIX}, and
  the file is then the same as without the interruption.

New records:
  An export writes FILE${CURSOR_SUFFIX}, or --cursor-file. With --cursor-file, the next export has the records that were stored since,
  each once, also those that were accepted earlier but stored late.
  While an export with a cursor file is unfinished, another one with this file is refused.

Example: ./sluice export ${name} --tenant acme --output ${name}.ndjson
         ./sluice export ${name} --tenant acme --cursor-file ${name}.cursor --output ${name}-2026-01-31.csv
         ./sluice export ${name} --tenant acme --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z > january.ndjson`;
}
