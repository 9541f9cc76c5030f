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

/** The lag of one partition. Offsets are text, as they can exceed the integers of JSON parsers. */
interface PartitionLag {
  readonly topic: string;
  readonly partition: number;
  readonly end: string;
  readonly stored: string;
  readonly lag: number;
  /** Age of the first record that is not stored. */
  readonly oldestSeconds: number | null;
  /** Why the partition is stalled, if the log does not match the stored position. */
  readonly problem: string | null;
}

export function addLagCommand(program: Command, context: CommandContext): void {
  program
    .command('lag')
    .description('show how many records of the event log are not stored yet')
    .addOption(new Option('--kind <kind>', 'only this kind of record').choices(KINDS))
    .option('--behind', 'only partitions with a lag')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice lag --behind')
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
          `the log does not match the stored position of ${unfit.length} partitions (${unfit[0]!.topic}, partition ` +
            `${unfit[0]!.partition}: ${unfit[0]!.problem}): it lost records, was restored from a copy, or was replaced. ` +
            'These partitions are stalled, and /health/ready of the workers reports the same. If the earlier log is lost ' +
            'for good, run `./sluice topics accept`',
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
      ['topic', 'partition', 'end', 'stored', 'lag', 'oldest', ...(unfit ? ['problem'] : [])],
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

/**
 * Returns why the workers cannot read a partition; null if they can. Uses the same rules as the
 * workers.
 */
function problemOf(next: bigint, { earliest, latest }: { earliest: bigint; latest: bigint }): string | null {
  if (next > latest) return 'the log ends before the stored position';
  if (next < earliest) return `${earliest - next} records were lost before they were stored`;
  return null;
}

async function readLag(context: CommandContext, kinds: readonly Kind[]): Promise<PartitionLag[]> {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const topics = kinds.map((kind) => topicOf(prefix, kind));
  return await withLogReader(context, async (reader, { pool }) => {
    // Positions are read before bounds, so that a concurrent worker is never ahead of the log.
    const positions = await listPositions(pool, topics);
    const bounds = await reader.bounds(topics);
    const missing = topics.filter((topic) => !bounds.has(topic));
    if (missing.length > 0) {
      const wasStored = positions.some(({ topic }) => missing.includes(topic));
      throw new AppError(
        'TOPIC_MISSING',
        `there is no topic ${missing.join(', ')}: ${
          wasStored
            ? 'it was deleted, and its records that were not stored are lost. Run `./sluice topics create`, then `./sluice topics accept`'
            : 'run `./sluice topics create`'
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
