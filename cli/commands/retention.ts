import type { Command } from 'commander';
import {
  RETAINED,
  RETENTION_SETTINGS,
  type RetentionDays,
  retentionOf,
} from '../../shared/config/retention.ts';
import { AppError } from '../../shared/errors.ts';
import { type ExpiredWeek, findExpiredWeeks } from '../../shared/postgres/retention/expired-weeks.ts';
import { type RetentionReport, runRetention } from '../../shared/postgres/retention/run-retention.ts';
import { dayOf, earlierNow } from '../../shared/postgres/times.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';

export function addRetentionCommands(program: Command, context: CommandContext): void {
  const retention = program.command('retention').description('delete what is past its retention');
  addRun(retention, context);
}

interface RunOptions {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

function addRun(retention: Command, context: CommandContext): void {
  retention
    .command('run')
    .description(
      'drop weeks of records, webhooks and audits that are past SLUICE_RETENTION_…_DAYS, as workers do daily; safe while Sluice runs, and to repeat',
    )
    .option('--dry-run', 'only show what would be dropped')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice retention run --dry-run')
    .action((options: RunOptions) => run(context, options));
}

/** Queries of readers end after 5 minutes. */
const DETACH_TIMEOUT_MS = 600_000;

async function run(context: CommandContext, { dryRun = false, json }: RunOptions): Promise<void> {
  const retention = retentionOf(context.config(Object.values(RETENTION_SETTINGS)));
  const report = await context.withPool(async (pool): Promise<RetentionReport | undefined> => {
    if (!dryRun)
      return await runRetention({
        pool,
        clock: context.clock,
        retention,
        detachTimeoutMs: DETACH_TIMEOUT_MS,
      });
    const nowMs = await earlierNow(pool, context.clock);
    return { dropped: await findExpiredWeeks(pool, retention, nowMs), kept: [], credentials: 0 };
  });
  if (!report) {
    throw new AppError('RETENTION_RUNS', 'a worker or another command is doing this: repeat it later', {
      retryable: true,
    });
  }
  const weeks = [...report.dropped, ...report.kept].map(describeWeek);
  if (json)
    return context.printJson({ dryRun, retentionDays: retention, weeks, credentials: report.credentials });
  printRetention(context, retention);
  if (weeks.length > 0) {
    context.printTable(
      ['table', 'week of', 'size', dryRun ? 'would be' : 'is'],
      weeks.map(({ table, week, bytes, reason }) => [table, week, sizeOf(bytes), reason ?? 'dropped']),
    );
  }
  context.print(sentenceOf(report, dryRun));
}

function describeWeek({
  table,
  partition,
  fromMs,
  bytes,
  reason,
}: ExpiredWeek & { readonly reason?: string }) {
  const week = dayOf(fromMs);
  const kept = reason === undefined ? undefined : `kept: ${reason}`;
  return { table, week, partition, bytes, dropped: reason === undefined, reason: kept };
}

/** Prints how long everything is kept, and the settings of what is kept for ever. */
function printRetention(context: CommandContext, retention: RetentionDays): void {
  const limited = RETAINED.filter((what) => retention[what] !== undefined);
  const kept = limited.map((what) => `${what} for ${retention[what]} days`).join(', ');
  if (limited.length > 0) context.print(`Kept: ${kept}.`);
  const unset = RETAINED.filter((what) => retention[what] === undefined);
  if (unset.length === 0) return;
  const names = unset.map((what) => RETENTION_SETTINGS[what]).join(', ');
  context.print(
    `Kept for ever: ${unset.join(', ')}. To change that, set ${names} for the workers and this command.`,
  );
}

function sentenceOf({ dropped, credentials }: RetentionReport, dryRun: boolean): string {
  if (dropped.length === 0 && credentials === 0) return 'Nothing is past its retention.';
  if (dryRun) return `${dropped.length} weeks would be dropped. Next: ./sluice retention run`;
  return `${dropped.length} weeks were dropped, and ${credentials} rows of erased credentials deleted.`;
}

const MIB = 1024 * 1024;

function sizeOf(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
