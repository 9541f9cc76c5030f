import type { Command } from 'commander';
import { type Config, LOG_SETTINGS, type LogSetting } from '../../shared/config/config.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { descriptionOf, type TopicShortfall } from '../../shared/log/kafka/topic-check.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { expectedTopics, REPLICAS, registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { checkSchema } from '../../shared/postgres/migrate.ts';
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
  const topics = program.command('topics').description('topics of the event log');
  addTopicsAccept(topics, context);
  topics
    .command('create')
    .description(
      'create missing topics and register their partitions; existing topics are not changed; safe to repeat',
    )
    .option('--partitions <n>', 'partitions per topic', wholeNumber(1, 1000), 12)
    .option('--tenant-partitions <k>', 'partitions per topic that one tenant uses', wholeNumber(1, 1000), 4)
    .option(
      '--replicas <n>',
      'replicas of each partition; fewer than 3 can lose data',
      wholeNumber(1, 15),
      REPLICAS,
    )
    .option('--dry-run', 'print the plan without changing anything')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice topics create --replicas 1   (for a test with one broker)')
    .action((options: TopicsCreateOptions) => {
      const config = context.config(LOG_SETTINGS);
      return context.withDatabase(async (database) => {
        const log = await openLog(context, database, config);
        try {
          // Topics that cannot be registered must not be created.
          await checkSchema(database.pool);
          const plan = await planFor(config, log, database, options);
          if (!options.json) print(context, plan);
          const created = options.dryRun ? [] : await create(context, config, database, log, plan, options);
          if (options.json) printJson(context, plan, created, options);
          else context.print(...summaryOf(plan, options));
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
    // The embedded log has no replicas.
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
    ['topic', 'partitions', 'replicas', 'retention', 'state'],
    topics.map((topic) => [
      topic.topic,
      String(topic.partitions),
      topic.replicas === undefined ? '-' : String(topic.replicas),
      durationOf(topic.retentionMs),
      stateOf(topic),
    ]),
  );
  context.print(...warnings.map((warning) => `Warning: ${topicsOf(warning, topics)}: ${warning.problem}.`));
}

function printJson(
  context: CommandContext,
  { topics, warnings }: TopicPlan,
  created: readonly string[],
  { dryRun }: TopicsCreateOptions,
): void {
  // JSON has no infinity, so null means unlimited.
  const shown = topics.map((topic) => ({
    ...topic,
    retentionMs: Number.isFinite(topic.retentionMs) ? topic.retentionMs : null,
  }));
  context.printJson({ dryRun: dryRun ?? false, created, topics: shown, warnings });
}

function summaryOf({ topics }: TopicPlan, { dryRun }: TopicsCreateOptions): string[] {
  const missing = topics.filter(({ action }) => action === 'create').length;
  if (dryRun) {
    return missing === 0
      ? ['Nothing would be created.']
      : [`${missing} topics would be created: run the command without --dry-run`];
  }
  const done = missing === 0 ? 'All topics existed.' : `${missing} topics were created.`;
  return [done, "Next: ./sluice tenants create NAME, then ./sluice keys create --tenant NAME --scope '*'"];
}

/** Describes the state of a topic. The number of partitions of an existing topic is not changed. */
function stateOf({ action, partitions, partitionsWanted }: PlannedTopic): string {
  if (action === 'create') return 'missing';
  return partitionsWanted === undefined ? 'exists' : `exists, keeps ${partitions}`;
}

function topicsOf(warning: TopicShortfall, all: readonly PlannedTopic[]): string {
  return warning.topics.length === all.length ? 'all topics' : warning.topics.join(', ');
}

function durationOf(ms: number): string {
  if (!Number.isFinite(ms)) return 'unlimited';
  return ms % DAY_MS === 0 ? `${ms / DAY_MS} days` : `${Number((ms / HOUR_MS).toFixed(2))} hours`;
}

function withHint(error: unknown): never {
  if (errorCode(error) !== 'TOPIC_REFUSED') throw error;
  throw new AppError(
    'TOPIC_REFUSED',
    `${errorMessage(error)}; with fewer brokers than replicas, set --replicas`,
    { cause: error },
  );
}

const isEmbedded = (config: Config<LogSetting>, { embedded }: OpenDatabase): boolean =>
  embedded && config.KAFKA_BROKERS === undefined;
