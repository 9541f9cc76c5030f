import { type Command, InvalidArgumentError, Option } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { QUARTER_HOUR_MS } from '../../shared/message-sent/counts.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { dayOf } from '../../shared/postgres/times.ts';
import { AUTOMATION_GROUPS, reportAutomation } from '../../shared/reports/automation-report.ts';
import { MESSAGE_GROUPS, reportMessageSent } from '../../shared/reports/message-sent-report.ts';
import type { Report, ReportResult } from '../../shared/reports/report.ts';
import { INTERVALS, type ReportQuery, readReportQuery } from '../../shared/reports/report-query.ts';
import { localDate, type TimeZone, timeZoneOf } from '../../shared/reports/time-zone.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { AUTOMATION_COLUMNS, MESSAGE_COLUMNS, MESSAGE_RATES } from '../reports/columns.ts';
import { csvOf } from '../reports/csv.ts';
import { withOffset } from '../reports/local-time.ts';
import { type ReportColumn, tableOf } from '../reports/table.ts';
import { requireTenant } from '../tenant-lookup.ts';
import { addDataQualityReport } from './report-data-quality.ts';

export function addReportCommands(program: Command, context: CommandContext): void {
  const group = program.command('report').description('counts of stored events, as tables, CSV or JSON');
  addReport(group, context, {
    name: 'message-sent',
    description: 'count MessageSent events, with rates and times in seconds',
    kind: 'message-sent',
    groups: MESSAGE_GROUPS,
    columns: MESSAGE_COLUMNS,
    rates: MESSAGE_RATES,
    report: reportMessageSent,
    example: '--group-by augmentationType --from 2026-10-01 --to 2026-11-01',
  });
  addReport(group, context, {
    name: 'automation',
    description: 'count the events of the automated agent, with times in seconds',
    kind: 'automation-events',
    groups: AUTOMATION_GROUPS,
    columns: AUTOMATION_COLUMNS,
    report: reportAutomation,
    example: '--interval day --timezone Europe/Berlin',
  });
  addDataQualityReport(group, context);
}

interface ReportCommand<GroupBy extends string, Values> {
  readonly name: string;
  readonly description: string;
  readonly kind: string;
  readonly groups: readonly GroupBy[];
  readonly columns: readonly ReportColumn<Values>[];
  /** What the rates of the columns are of. */
  readonly rates?: string;
  report(pool: Pool, tenantId: string, query: ReportQuery<GroupBy>): Promise<ReportResult<Values>>;
  readonly example: string;
}

interface ReportOptions {
  readonly tenant: string;
  readonly from?: string;
  readonly to?: string;
  readonly groupBy?: string;
  readonly interval: string;
  readonly timezone: string;
  readonly csv?: boolean;
  readonly json?: boolean;
}

function addReport<GroupBy extends string, Values extends object>(
  group: Command,
  context: CommandContext,
  definition: ReportCommand<GroupBy, Values>,
): void {
  const { name, description, groups, example } = definition;
  group
    .command(name)
    .description(description)
    .requiredOption('--tenant <name>', 'the tenant of the events')
    .option('--from <time>', 'start: a date, or a time at a quarter-hour (default: 7 days before the end)')
    .option('--to <time>', 'end, not part of the range (default: the end of today)')
    .addOption(
      new Option('--group-by <groups>', 'also the values of each group')
        .choices(groups)
        .argParser((text) => oneGrouping(text, groups)),
    )
    .addOption(
      new Option('--interval <interval>', 'what to count separately').choices(INTERVALS).default('total'),
    )
    .option('--timezone <name>', 'IANA time zone of dates, days and hours', 'UTC')
    .addOption(new Option('--csv', 'print CSV with all values').conflicts('json'))
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      `\nThe time of an event is its occurredAt, or that of its acceptance if it has none.\n\nExample: ./sluice report ${name} --tenant acme ${example}`,
    )
    .action((options: ReportOptions, command: Command) => print(context, definition, options, command));
}

/** Returns the value of --group-by. Throws InvalidArgumentError. */
function oneGrouping(text: string, groups: readonly string[]): string {
  if (groups.includes(text)) return text;
  throw new InvalidArgumentError(`Allowed choices are ${groups.join(', ')}: give one of them.`);
}

async function print<GroupBy extends string, Values extends object>(
  context: CommandContext,
  definition: ReportCommand<GroupBy, Values>,
  options: ReportOptions,
  command: Command,
): Promise<void> {
  const refuse = (details: readonly { readonly path: string; readonly message: string }[]): never => {
    const problems = details.map(({ path, message }) => `${OPTIONS[path] ?? path} ${message}`);
    return command.error(`error: ${problems.join('; ')}`, { exitCode: 2 });
  };
  const read = readReportQuery({ ...options, ...rangeOf(context, options) }, definition.groups);
  if (!read.ok) return refuse(read.details);
  const result = await context.withPool(async (pool) => {
    const { tenantId } = await requireTenant(pool, options.tenant);
    return await definition.report(pool, tenantId, read.query);
  });
  if (!result.ok) {
    throw new AppError('REPORT_TOO_LARGE', result.details.map(({ message }) => message).join('; '));
  }
  const { report } = result;
  if (options.json) return context.printJson(report);
  if (options.csv) return context.printData(csvOf(report, read.query.zone));
  const { head, rows, alignments } = tableOf(report, read.query.zone, definition.columns);
  context.printTable(head, rows, alignments);
  context.print(...notes(report, read.query.zone, definition, options.tenant));
}

/** The options by the names of the parameters in messages. */
const OPTIONS: Readonly<Record<string, string>> = {
  from: '--from',
  to: '--to',
  groupBy: '--group-by',
  interval: '--interval',
  timezone: '--timezone',
};

const DAY_MS = 86_400_000;
const DAYS = 7;

/** Returns the range; its default is the last days, today included. */
function rangeOf(context: CommandContext, { from, to, timezone }: ReportOptions) {
  const zone = timeZoneOf(timezone);
  if (!zone || (from !== undefined && to !== undefined)) return { from, to };
  const today = Date.parse(
    localDate(zone, Math.floor(context.clock.nowMs() / QUARTER_HOUR_MS) * QUARTER_HOUR_MS),
  );
  const dateAfter = (days: number) => dayOf(today + days * DAY_MS);
  if (to !== undefined) {
    const end = Date.parse(to);
    return Number.isNaN(end) ? { from: to, to } : { from: dayOf(end - DAYS * DAY_MS), to };
  }
  return { from: from ?? dateAfter(1 - DAYS), to: dateAfter(1) };
}

function notes<Values>(
  { from, to, timezone, timeOf, intervals }: Report<Values>,
  zone: TimeZone,
  { kind, rates }: Pick<ReportCommand<string, Values>, 'kind' | 'rates'>,
  tenant: string,
): string[] {
  const sum = (name: 'deadLetters' | 'conflicts') => intervals.reduce((total, one) => total + one[name], 0);
  const [deadLetters, conflicts] = [sum('deadLetters'), sum('conflicts')];
  return [
    `From ${withOffset(zone, from)} until ${withOffset(zone, to)} (not included). Times are in ${timezone}: ${timeOf}.`,
    ...(rates === undefined ? [] : [rates]),
    ...(deadLetters + conflicts === 0
      ? []
      : [
          `Not counted: open dead letters (${deadLetters}) and conflicts (${conflicts}), see ./sluice dead-letters list --tenant ${tenant} --topic ${kind}`,
        ]),
  ];
}
