import { type Command, Option } from 'commander';
import { dayOf } from '../../shared/postgres/times.ts';
import {
  DATA_QUALITY_INTERVALS,
  type DataQualityReport,
  type FoundBy,
  type NamedRecords,
  type QualityInterval,
  readDataQualityQuery,
  reportDataQuality,
} from '../../shared/reports/data-quality-report.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { printable } from '../printable.ts';
import { lineOf } from '../reports/csv.ts';
import { requireTenant } from '../tenant-lookup.ts';

interface DataQualityOptions {
  readonly tenant: string;
  readonly from?: string;
  readonly to?: string;
  readonly interval: string;
  readonly csv?: boolean;
  readonly json?: boolean;
}

export function addDataQualityReport(group: Command, context: CommandContext): void {
  group
    .command('data-quality')
    .description(
      'count missing and unknown members, rejected records, duplicates, conflicts and dead letters',
    )
    .requiredOption('--tenant <name>', 'the tenant of the records')
    .option('--from <day>', 'first day (UTC) (default: 7 days before the end)')
    .option('--to <day>', 'the day after the last one (UTC) (default: tomorrow)')
    .addOption(
      new Option('--interval <interval>', 'what to count separately')
        .choices(DATA_QUALITY_INTERVALS)
        .default('total'),
    )
    .addOption(new Option('--csv', 'print CSV').conflicts('json'))
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nDays are those on which records were accepted or refused. Gateways write their counts every 5 seconds. A name is that of a member or field. ' +
        'The row (any) counts the records with at least one of them; a record can be in several rows. CSV has no name there.\n\n' +
        'Example: ./sluice report data-quality --tenant acme --from 2026-10-01 --to 2026-11-01 --interval day',
    )
    .action((options: DataQualityOptions, command: Command) => print(context, options, command));
}

async function print(context: CommandContext, options: DataQualityOptions, command: Command): Promise<void> {
  const read = readDataQualityQuery({ ...options, ...rangeOf(context.clock.nowMs(), options) });
  if (!read.ok) {
    const problems = read.details.map(({ path, message }) => `--${path} ${message}`);
    return command.error(`error: ${problems.join('; ')}`, { exitCode: 2 });
  }
  const report = await context.withPool(async (pool) => {
    const { tenantId } = await requireTenant(pool, options.tenant);
    return await reportDataQuality(pool, tenantId, read.query);
  });
  if (options.json) return context.printJson(report);
  const [head, ...rows] = tableOf(report, options.csv ? '' : ANY_NAME);
  if (options.csv) return context.printData(printable([head!, ...rows].map(lineOf).join('\n')));
  if (rows.length === 0) {
    return context.print(`Nothing is counted from ${report.from} until ${report.to} (not included).`);
  }
  context.printTable(head!, rows);
  context.print(
    `Days (UTC) from ${report.from} until ${report.to} (not included).`,
    ...nextSteps(report, options.tenant),
  );
}

const DAY_MS = 86_400_000;
const DAYS = 7;

/** Returns the range; its default is the last days, today included. */
function rangeOf(nowMs: number, { from, to }: DataQualityOptions) {
  const end = to ?? dayOf(nowMs + DAY_MS);
  const endMs = Date.parse(end);
  return { from: from ?? (Number.isNaN(endMs) ? end : dayOf(endMs - DAYS * DAY_MS)), to: end };
}

/** The name in the row that counts records with at least one of the names below. */
const ANY_NAME = '(any)';

/** Returns a row per count, after the head, with `any` as the name in rows for all names. */
function tableOf({ interval, intervals }: DataQualityReport, any: string): string[][] {
  const withDay = (day: string, cells: readonly string[]) =>
    interval === 'total' ? [...cells] : [day, ...cells];
  return [
    withDay('day', ['measure', 'kind', 'code', 'name', 'records']),
    ...intervals.flatMap((one) => rowsOf(one, any).map((cells) => withDay(one.from, cells))),
  ];
}

function rowsOf(one: QualityInterval, any: string): string[][] {
  return [
    ...one.gaps.flatMap(({ kind, records, members }) =>
      rowsOfNames(['gap', kind, ''], { records, any }, members),
    ),
    ...one.unknownMembers.flatMap(({ kind, records, members }) =>
      rowsOfNames(['unknown-member', kind, ''], { records, any }, members),
    ),
    ...one.rejected.flatMap(({ kind, code, records, fields }) =>
      rowsOfNames(['rejected', kind, code], { records, any }, fields),
    ),
    ...one.duplicates.flatMap((found) => rowsOfFound('duplicate', found)),
    ...one.conflicts.flatMap((found) => rowsOfFound('conflict', found)),
    ...one.deadLetters.map(({ kind, reason, records }) => ['dead-letter', kind, reason, '', String(records)]),
  ];
}

function rowsOfNames(
  cells: readonly string[],
  { records, any }: { readonly records: number; readonly any: string },
  names: readonly NamedRecords[],
): string[][] {
  return [
    [...cells, names.length > 0 ? any : '', String(records)],
    ...names.map(({ name, records: named }) => [...cells, name, String(named)]),
  ];
}

function rowsOfFound(measure: string, { kind, gateway, workers }: FoundBy): string[][] {
  return Object.entries({ gateway, workers })
    .filter(([, records]) => records > 0)
    .map(([finder, records]) => [measure, kind, finder, '', String(records)]);
}

function nextSteps({ intervals }: DataQualityReport, tenant: string): string[] {
  const hasLetters = intervals.some(
    ({ deadLetters, conflicts }) => deadLetters.length > 0 || conflicts.some(({ workers }) => workers > 0),
  );
  return hasLetters
    ? [`Dead letters of the last 30 days: ./sluice dead-letters list --tenant ${tenant}`]
    : [];
}
