import type { Command } from 'commander';
import { type Config, LOG_SETTINGS, type LogSetting } from '../../shared/config/config.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { descriptionOf, type TopicShortfall } from '../../shared/log/kafka/topic-check.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { checkSchema } from '../../shared/postgres/migrate.ts';
import { expectedTopics, REPLICAS, registerTopics, topicSpecs } from '../../shared/postgres/topics.ts';
import type { CommandContext } from '../context.ts';
import type { OpenDatabase } from '../database.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { type PlannedTopic, planTopics, type TopicPlan } from '../topics/topic-plan.ts';
import { openLog } from '../with-log.ts';
import { addTopicsAccept } from './topics-accept.ts';

interface TopicsCreateOptions {
  readonly partitions: number;
  readonly tenantPartitions: number;
  readonly replicas: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export function addTopicsCommands(program: Command, context: CommandContext): void {
  const topics = program.command('topics').description('the topics of the event log');
  addTopicsAccept(topics, context);
  topics
    .command('create')
    .description(
      'create the topics that are missing and remember their layout; those that exist stay as they are; safe to repeat',
    )
    .option('--partitions <n>', 'partitions a topic', wholeNumber(1, 1000), 12)
    .option('--tenant-partitions <k>', 'partitions that one tenant uses', wholeNumber(1, 1000), 4)
    .option(
      '--replicas <n>',
      'copies of each partition; fewer than 3 can lose data',
      wholeNumber(1, 15),
      REPLICAS,
    )
    .option('--dry-run', 'only say what would be done')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: npx sluice topics create --replicas 1   (a single broker, for trying out)',
    )
    .action((options: TopicsCreateOptions) => {
      const config = context.config(LOG_SETTINGS);
      return context.withDatabase(async (database) => {
        const log = await openLog(context, database, config);
        try {
          // Topics that nobody can register would only be in the way later.
          await checkSchema(database.pool);
          const plan = await planFor(config, log, database, options);
          if (!options.json) print(context, plan);
          const created = options.dryRun ? [] : await create(context, config, database, log, plan, options);
          if (options.json) printJson(context, plan, created, options);
          else context.print(closingWord(plan, options));
        } finally {
          await log.close();
        }
      });
    });
}

function planFor(
  config: Config<LogSetting>,
  log: EventLog,
  database: OpenDatabase,
  options: TopicsCreateOptions,
): Promise<TopicPlan> {
  const prefix = config.SLUICE_TOPIC_PREFIX;
  return planTopics(log, topicSpecs(prefix, options), expectedTopics(prefix), (spec) =>
    // The embedded log keeps no copies of its own.
    isEmbedded(config, database)
      ? { partitions: spec.partitions, retentionMs: spec.retentionMs }
      : descriptionOf(spec),
  );
}

async function create(
  context: CommandContext,
  config: Config<LogSetting>,
  database: OpenDatabase,
  log: EventLog,
  { topics }: TopicPlan,
  options: TopicsCreateOptions,
): Promise<string[]> {
  const specs = topicSpecs(config.SLUICE_TOPIC_PREFIX, options);
  const created = await log.createTopics(specs).catch(withHint);
  await registerTopics(database.pool, topics, {
    tenantPartitions: options.tenantPartitions,
    clock: context.clock,
  });
  return created;
}

function print(context: CommandContext, { topics, warnings }: TopicPlan): void {
  context.printTable(
    ['topic', 'partitions', 'replicas', 'kept for', ''],
    topics.map((topic) => [
      topic.topic,
      String(topic.partitions),
      topic.replicas === undefined ? '-' : String(topic.replicas),
      durationOf(topic.retentionMs),
      stateOf(topic),
    ]),
  );
  context.print(...warnings.map((warning) => `Warning: ${whichOf(warning, topics)}: ${warning.problem}.`));
}

function printJson(
  context: CommandContext,
  { topics, warnings }: TopicPlan,
  created: readonly string[],
  { dryRun }: TopicsCreateOptions,
): void {
  // JSON knows no infinity: null is for ever.
  const shown = topics.map((topic) => ({
    ...topic,
    retentionMs: Number.isFinite(topic.retentionMs) ? topic.retentionMs : null,
  }));
  context.printJson({ dryRun: dryRun ?? false, created, topics: shown, warnings });
}

function closingWord({ topics }: TopicPlan, { dryRun }: TopicsCreateOptions): string {
  const missing = topics.filter(({ action }) => action === 'create').length;
  if (dryRun) {
    return missing === 0
      ? 'Nothing would be created.'
      : `${missing} topics would be created: run it without --dry-run`;
  }
  const done = missing === 0 ? 'All topics were there.' : `${missing} topics were created.`;
  return `${done}\nNext: npx sluice tenants create NAME, then npx sluice keys create --tenant NAME --scope '*'`;
}

/** Partitions are fixed once records lie in them. */
function stateOf({ action, partitions, partitionsWanted }: PlannedTopic): string {
  if (action === 'create') return 'to be created';
  return partitionsWanted === undefined ? 'is there' : `is there, stays at ${partitions}`;
}

function whichOf(warning: TopicShortfall, all: readonly PlannedTopic[]): string {
  return warning.topics.length === all.length ? 'all topics' : warning.topics.join(', ');
}

function durationOf(ms: number): string {
  if (!Number.isFinite(ms)) return 'ever';
  return ms % DAY_MS === 0 ? `${ms / DAY_MS} days` : `${Number((ms / HOUR_MS).toFixed(2))} hours`;
}

function withHint(error: unknown): never {
  if (errorCode(error) !== 'TOPIC_REFUSED') throw error;
  throw new AppError(
    'TOPIC_REFUSED',
    `${errorMessage(error)}; on fewer brokers than replicas, set --replicas`,
    { cause: error },
  );
}

const isEmbedded = (config: Config<LogSetting>, { embedded }: OpenDatabase): boolean =>
  embedded && config.KAFKA_BROKERS === undefined;
