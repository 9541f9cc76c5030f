import { type Command, Option } from 'commander';
import { LOG_SETTINGS } from '../../shared/config/config.ts';
import { KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import type { LogReader } from '../../shared/log/log.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { listPositions } from '../sql/log-positions.ts';
import { withLogReader } from '../with-log.ts';

interface LagOptions {
  readonly kind?: Kind;
  readonly behind?: boolean;
  readonly json?: boolean;
}

/** One partition: how much of it is not stored yet. Offsets as text, since they may exceed what JSON readers keep. */
interface PartitionLag {
  readonly topic: string;
  readonly partition: number;
  readonly end: string;
  readonly stored: string;
  readonly lag: number;
  /** Seconds since the log took the first record that is not stored. */
  readonly oldestSeconds: number | null;
  /** Why its worker stands still, where the log does not fit what is stored. */
  readonly problem: string | null;
}

export function addLagCommand(program: Command, context: CommandContext): void {
  program
    .command('lag')
    .description('how far the workers are behind the event log')
    .addOption(new Option('--kind <kind>', 'of one kind of records').choices(KINDS))
    .option('--behind', 'only partitions that are behind')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice lag --behind')
    .action(async (options: LagOptions) => {
      const partitions = await readLag(context, options.kind ? [options.kind] : KINDS);
      const unfit = partitions.filter(({ problem }) => problem !== null);
      const shown = options.behind
        ? partitions.filter(({ lag, problem }) => lag > 0 || problem !== null)
        : partitions;
      const total = partitions.reduce((sum, { lag }) => sum + lag, 0);
      if (options.json) context.printJson({ lag: total, partitions: shown });
      else printLag(context, shown, total, unfit.length > 0);
      if (unfit.length > 0) {
        throw new AppError(
          'LOG_UNFIT',
          `the log does not fit what is stored in ${unfit.length} partitions (${unfit[0]!.topic}, partition ` +
            `${unfit[0]!.partition}: ${unfit[0]!.problem}): it was lost in part, put back from a copy, or is another ` +
            'one; its workers stand still, and their /health/ready says the same. Where the log that was read will not come ' +
            'back, run `npx sluice topics accept`',
        );
      }
    });
}

function printLag(
  context: CommandContext,
  shown: readonly PartitionLag[],
  total: number,
  unfit: boolean,
): void {
  if (shown.length > 0) {
    context.printTable(
      ['topic', 'partition', 'end', 'stored', 'lag', 'oldest waits', ...(unfit ? ['problem'] : [])],
      shown.map(({ topic, partition, end, stored, lag, oldestSeconds, problem }) => [
        topic,
        String(partition),
        end,
        stored,
        String(lag),
        oldestSeconds === null ? '' : `${oldestSeconds} s`,
        ...(unfit ? [problem ?? ''] : []),
      ]),
    );
  }
  if (total > 0) context.print(`${total} records are not stored yet.`);
  else if (!unfit) context.print('Everything is stored.');
}

/** As the workers see it when they take the partition. */
function problemOf(next: bigint, { earliest, latest }: { earliest: bigint; latest: bigint }): string | null {
  if (next > latest) return 'the log ends below what was stored from it';
  if (next < earliest) return `${earliest - next} records are gone that were not stored`;
  return null;
}

async function readLag(context: CommandContext, kinds: readonly Kind[]): Promise<PartitionLag[]> {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const topics = kinds.map((kind) => topicOf(prefix, kind));
  return await withLogReader(context, async (reader, { pool }) => {
    // In this order, so that a worker which stores meanwhile is never ahead of the log.
    const positions = await listPositions(pool, topics);
    const bounds = await reader.bounds(topics);
    const missing = topics.filter((topic) => !bounds.has(topic));
    if (missing.length > 0) {
      const wasStored = positions.some(({ topic }) => missing.includes(topic));
      throw new AppError(
        'TOPIC_MISSING',
        `there is no topic ${missing.join(', ')}: ${
          wasStored
            ? 'it was deleted, with what it held and was not stored. Run `npx sluice topics create`, then `npx sluice topics accept`'
            : 'run `npx sluice topics create`'
        }`,
      );
    }
    const stored = new Map(positions.map((row) => [`${row.topic}/${row.partition}`, row.nextOffset]));
    const lags: PartitionLag[] = [];
    for (const [topic, partitions] of bounds) {
      for (const [partition, { earliest, latest }] of [...partitions].sort(([a], [b]) => a - b)) {
        const next = stored.get(`${topic}/${partition}`) ?? 0n;
        const problem = problemOf(next, { earliest, latest });
        let from = next;
        if (from < earliest) from = earliest;
        const lag = latest > next ? Number(latest - next) : 0;
        const oldestMs =
          lag === 0 ? undefined : await firstTimestampMs(reader, { topic, partition, from, to: from + 1n });
        lags.push({
          topic,
          partition,
          end: latest.toString(),
          stored: next.toString(),
          lag,
          oldestSeconds:
            oldestMs === undefined
              ? null
              : Math.max(0, Math.round((context.clock.nowMs() - oldestMs) / 1000)),
          problem,
        });
      }
    }
    return lags;
  });
}

async function firstTimestampMs(
  reader: LogReader,
  range: Parameters<LogReader['pages']>[0],
): Promise<number | undefined> {
  for await (const page of reader.pages(range)) return page[0]?.timestampMs;
  return undefined;
}
