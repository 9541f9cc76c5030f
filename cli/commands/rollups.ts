import type { Command } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { dayOf } from '../../shared/postgres/times.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, utcDay } from '../options.ts';
import { rebuildCounts } from '../rollups/rebuild.ts';
import { createProgressBar } from '../send/progress-bar.ts';
import { ACCEPTED_BEFORE_MS } from '../sql/message-recount.ts';
import { tenantsToSearch } from '../tenant-lookup.ts';

const DAY_MS = 86_400_000;

interface RebuildOptions {
  readonly from: number;
  readonly to: number;
  readonly tenant?: string;
  readonly json?: boolean;
}

export function addRollupsCommands(program: Command, context: CommandContext): void {
  program
    .command('rollups')
    .description('counts of MessageSent events for reports')
    .command('rebuild')
    .description('count stored MessageSent events again; safe while Sluice runs, and to repeat')
    .requiredOption('--from <day>', 'first UTC day, such as 2026-01-31', utcDay)
    .requiredOption('--to <day>', 'UTC day after the last one, at most tomorrow', utcDay)
    .option('--tenant <name>', 'only this tenant (default: all)')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nDays are those of the events: occurredAt, or the time of acceptance if it has none. Also counts the events of earlier releases, which ' +
        'did not count.\n\nExample: ./sluice rollups rebuild --from 2026-10-01 --to 2026-11-01',
    )
    .action((options: RebuildOptions, command: Command) => {
      if (options.to <= options.from) command.error('error: --to must be after --from', { exitCode: 2 });
      const endMs = dayStartMs(context.clock.nowMs() + ACCEPTED_BEFORE_MS) + DAY_MS;
      if (options.to > endMs) {
        command.error(`error: --to must be at most ${dayOf(endMs)}: no event is later`, { exitCode: 2 });
      }
      return rebuild(context, options);
    });
}

const dayStartMs = (timeMs: number) => Math.floor(timeMs / DAY_MS) * DAY_MS;

async function rebuild(context: CommandContext, { from, to, tenant, json }: RebuildOptions): Promise<void> {
  let interrupted = false;
  void context.untilInterrupted().then(() => {
    interrupted = true;
  });
  const total = (to - from) / DAY_MS;
  const bar = createProgressBar(context.stderr, {
    name: 'days',
    total,
    visible: true,
    words: ['messages counted', 'failed'],
  });
  let messages = 0;
  const days = await context
    .withPool(async (pool) => {
      const tenantIds = (await tenantsToSearch(pool, tenant)).map(({ tenantId }) => tenantId);
      return await rebuildCounts({
        pool,
        tenantIds,
        fromMs: from,
        toMs: to,
        onDay(counted) {
          messages += counted;
          bar.bytesRead(1);
          bar.counts({ settled: messages, refused: 0 });
        },
        isInterrupted: () => interrupted,
      });
    })
    .finally(() => bar.stop());
  const next = dayOf(from + days * DAY_MS);
  if (json) context.printJson({ from: dayOf(from), to: next, days, messages });
  else {
    context.print(
      `Counted ${messages} messages of ${days} days again. Reports have them now; workers compact the counts within minutes.`,
    );
  }
  if (days < total) {
    const only = tenant === undefined ? '' : ` --tenant ${tenant}`;
    throw new AppError(
      'INTERRUPTED',
      `interrupted: continue with \`./sluice rollups rebuild --from ${next} --to ${dayOf(to)}${only}\``,
    );
  }
}
