import { type Command, Option } from 'commander';
import { LOG_SETTINGS } from '../../shared/config/config.ts';
import { KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { createHolders, type HolderOf } from '../lag/members.ts';
import { type PartitionLag, readLag } from '../lag/partitions.ts';
import { sumByTopic, type TopicLag } from '../lag/topics.ts';
import { JSON_OPTION } from '../options.ts';
import { withLog } from '../with-log.ts';

interface LagOptions {
  readonly kind?: Kind;
  readonly behind?: boolean;
  readonly partitions?: boolean;
  readonly json?: boolean;
}

export function addLagCommand(program: Command, context: CommandContext): void {
  program
    .command('lag')
    .description('show how many records of the event log are not stored yet')
    .addOption(new Option('--kind <kind>', 'only this kind of record').choices(KINDS))
    .option('--behind', 'only topics and partitions with a lag')
    .option('--partitions', 'show each partition, and the worker that holds it')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice lag --behind')
    .action(async (options: LagOptions) => {
      const { partitions, holderOf } = await read(context, options);
      const unfit = partitions.filter(({ problem }) => problem !== null);
      const total = partitions.reduce((sum, { lag }) => sum + lag, 0);
      const shown = options.behind ? partitions.filter(isBehind) : partitions;
      const topics = sumByTopic(partitions).filter((topic) => !options.behind || isTopicBehind(topic));
      if (options.json) {
        const held = holderOf ? shown.map((one) => ({ ...one, member: holderOf(one) ?? null })) : shown;
        context.printJson({ lag: total, topics, partitions: held });
      } else {
        if (options.partitions) printPartitions(context, shown, holderOf);
        else printTopics(context, topics);
        printTotal(context, total, unfit.length > 0);
      }
      if (unfit.length > 0) throw unfitLog(unfit);
    });
}

async function read(context: CommandContext, { kind, partitions: withMembers }: LagOptions) {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const topics = (kind ? [kind] : KINDS).map((one) => topicOf(prefix, one));
  return await withLog(context, async ({ log, reader, pool }) => {
    const partitions = await readLag({ reader, db: pool, clock: context.clock }, topics);
    // Each consumer group has the name of its topic.
    const members = withMembers ? await log.groupMembers(topics) : undefined;
    return { partitions, holderOf: members && createHolders(members) };
  });
}

function isBehind({ lag, problem }: PartitionLag): boolean {
  return lag > 0 || problem !== null;
}

function isTopicBehind({ lag, stalled }: TopicLag): boolean {
  return lag > 0 || stalled > 0;
}

function unfitLog(unfit: readonly PartitionLag[]): AppError {
  return new AppError(
    'LOG_UNFIT',
    `the log does not match the stored position of ${unfit.length} partition${unfit.length === 1 ? '' : 's'} ` +
      `(${unfit[0]!.topic}, partition ${unfit[0]!.partition}: ${unfit[0]!.problem}): it lost records, was restored from ` +
      'a copy, or was replaced. Such partitions are stalled, and /health/ready of the workers reports the same. If the ' +
      'earlier log is lost for good, run `./sluice topics accept`',
  );
}

function printTopics(context: CommandContext, topics: readonly TopicLag[]): void {
  if (topics.length === 0) return;
  const stalled = topics.some((topic) => topic.stalled > 0);
  context.printTable(
    ['topic', 'partitions', 'behind', 'lag', 'oldest', ...(stalled ? ['stalled'] : [])],
    topics.map((topic) => [
      topic.topic,
      String(topic.partitions),
      String(topic.behind),
      String(topic.lag),
      ageOf(topic),
      ...(stalled ? [String(topic.stalled)] : []),
    ]),
  );
}

function printPartitions(
  context: CommandContext,
  partitions: readonly PartitionLag[],
  holderOf: HolderOf | undefined,
): void {
  if (partitions.length === 0) return;
  const unfit = partitions.some(({ problem }) => problem !== null);
  context.printTable(
    [
      'topic',
      'partition',
      'end',
      'stored',
      'lag',
      'oldest',
      ...(holderOf ? ['member'] : []),
      ...(unfit ? ['problem'] : []),
    ],
    partitions.map((one) => [
      one.topic,
      String(one.partition),
      one.end,
      one.stored,
      String(one.lag),
      ageOf(one),
      ...(holderOf ? [holderOf(one) ?? 'none'] : []),
      ...(unfit ? [one.problem ?? ''] : []),
    ]),
  );
}

function ageOf({ oldestSeconds }: Pick<TopicLag, 'oldestSeconds'>): string {
  return oldestSeconds === null ? '' : `${oldestSeconds} s`;
}

function printTotal(context: CommandContext, total: number, unfit: boolean): void {
  if (total > 0) context.print(`${total} ${total === 1 ? 'record is' : 'records are'} not stored yet.`);
  else if (!unfit) context.print('Everything is stored.');
}
