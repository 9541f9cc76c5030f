import { type Command, Option } from 'commander';
import { LOG_SETTINGS } from '../../shared/config.ts';
import { KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import type { LogReader } from '../../shared/log/log.ts';
import { listPositions } from '../../shared/postgres/list-positions.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
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
      const shown = options.behind ? partitions.filter(({ lag }) => lag > 0) : partitions;
      const total = partitions.reduce((sum, { lag }) => sum + lag, 0);
      if (options.json) return context.printJson({ lag: total, partitions: shown });
      if (shown.length > 0) {
        context.printTable(
          ['topic', 'partition', 'end', 'stored', 'lag', 'oldest waits'],
          shown.map(({ topic, partition, end, stored, lag, oldestSeconds }) => [
            topic,
            String(partition),
            end,
            stored,
            String(lag),
            oldestSeconds === null ? '' : `${oldestSeconds} s`,
          ]),
        );
      }
      context.print(total === 0 ? 'Everything is stored.' : `${total} records are not stored yet.`);
    });
}

async function readLag(context: CommandContext, kinds: readonly Kind[]): Promise<PartitionLag[]> {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const topics = kinds.map((kind) => topicOf(prefix, kind));
  return await withLogReader(context, async (reader, { pool }) => {
    const [bounds, positions] = await Promise.all([reader.bounds(topics), listPositions(pool, topics)]);
    if (bounds.size === 0) {
      throw new AppError(
        'TOPIC_MISSING',
        `there is no topic ${topics.join(', ')}: run \`npx sluice topics create\``,
      );
    }
    const stored = new Map(positions.map((row) => [`${row.topic}/${row.partition}`, row.nextOffset]));
    const lags: PartitionLag[] = [];
    for (const [topic, partitions] of bounds) {
      for (const [partition, { earliest, latest }] of [...partitions].sort(([a], [b]) => a - b)) {
        const next = stored.get(`${topic}/${partition}`) ?? earliest;
        const lag = latest > next ? Number(latest - next) : 0;
        const oldestMs =
          lag === 0
            ? undefined
            : await firstTimestampMs(reader, { topic, partition, from: next, to: next + 1n });
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
