import type { Command } from 'commander';
import type { Config } from '../../shared/config.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { createEmbeddedLog } from '../../shared/log/embedded.ts';
import { createKafkaLog } from '../../shared/log/kafka.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { checkSchema } from '../../shared/postgres/migrate.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/topics.ts';
import type { CommandContext } from '../context.ts';
import type { OpenDatabase } from '../database.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';

interface TopicsCreateOptions {
  readonly partitions: number;
  readonly tenantPartitions: number;
  readonly replicas: number;
  readonly json?: boolean;
}

export function addTopicsCommands(program: Command, context: CommandContext): void {
  program
    .command('topics')
    .description('the topics of the event log')
    .command('create')
    .description('create the topics that are missing and remember their layout; safe to repeat')
    .option('--partitions <n>', 'partitions a topic', wholeNumber(1, 1000), 12)
    .option('--tenant-partitions <k>', 'partitions that one tenant uses', wholeNumber(1, 1000), 4)
    .option('--replicas <n>', 'copies of each partition; fewer than 3 can lose data', wholeNumber(1, 15), 3)
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: npx sluice topics create --replicas 1   (a single broker, for trying out)',
    )
    .action(async (options: TopicsCreateOptions) => {
      const { created, topics } = await context.withDatabase((database) =>
        createTopics(context, database, options),
      );
      if (options.json) return context.printJson({ created, topics });
      context.printTable(
        ['topic', 'partitions', ''],
        topics.map(({ topic, partitions }) => [
          topic,
          String(partitions),
          stateOf(created.includes(topic), partitions, options.partitions),
        ]),
      );
      context.print(
        "Next: npx sluice tenants create NAME, then npx sluice keys create --tenant NAME --scope '*'",
      );
    });
}

function withHint(error: unknown): never {
  if (errorCode(error) !== 'TOPIC_REFUSED') throw error;
  throw new AppError(
    'TOPIC_REFUSED',
    `${errorMessage(error)}; on fewer brokers than replicas, set --replicas`,
    {
      cause: error,
    },
  );
}

/** Partitions are fixed once records lie in them. */
function stateOf(created: boolean, partitions: number, wanted: number): string {
  if (created) return 'created';
  return partitions === wanted ? 'was there' : `was there, stays at ${partitions}`;
}

async function createTopics(context: CommandContext, database: OpenDatabase, options: TopicsCreateOptions) {
  const config = context.config('cli');
  const log = openLog(context, database);
  try {
    const specs = topicSpecs(config.SLUICE_TOPIC_PREFIX, options);
    const names = specs.map((spec) => spec.topic);
    // Topics that nobody can register would only be in the way later.
    await checkSchema(database.pool);
    const created = await log.createTopics(specs).catch(withHint);
    const partitions = await log.partitionCounts(names);
    const topics = names.map((topic) => ({ topic, partitions: partitions.get(topic) ?? 0 }));
    await registerTopics(database.pool, topics, {
      tenantPartitions: options.tenantPartitions,
      clock: context.clock,
    });
    return { created, topics };
  } finally {
    await log.close();
  }
}

/** The event log of the settings: Kafka, or that of the embedded instance. Throws AppError `LOG_NOT_CONFIGURED`. */
export function openLog(
  context: CommandContext,
  database: OpenDatabase,
  config: Config = context.config('cli'),
): EventLog {
  if (config.KAFKA_BROKERS) {
    return createKafkaLog({ brokers: config.KAFKA_BROKERS, clientId: 'sluice-cli', logger: context.logger });
  }
  if (!database.embedded) {
    throw new AppError(
      'LOG_NOT_CONFIGURED',
      'KAFKA_BROKERS is not set: name the brokers whose topics should be created, for example KAFKA_BROKERS=localhost:9092',
    );
  }
  return createEmbeddedLog({
    pool: database.pool,
    clock: context.clock,
    logger: context.logger,
    memberId: context.nextId(),
  });
}
