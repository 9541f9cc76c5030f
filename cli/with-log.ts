import { type Config, type KafkaSetting, LOG_SETTINGS } from '../shared/config/config.ts';
import { AppError } from '../shared/errors.ts';
import { createEmbeddedLog } from '../shared/log/embedded/embedded-log.ts';
import { kafkaOptionsOf } from '../shared/log/kafka/security.ts';
import type { EventLog, LogReader } from '../shared/log/log.ts';
import type { CommandContext } from './context.ts';
import type { OpenDatabase } from './database.ts';

/** The open event log with a reader, and the database. */
export interface OpenedLog extends OpenDatabase {
  readonly log: EventLog;
  readonly reader: LogReader;
}

/**
 * Runs `work` with the event log and the database, and closes both afterwards, also after an error.
 */
export async function withLog<T>(
  context: CommandContext,
  work: (opened: OpenedLog) => Promise<T>,
): Promise<T> {
  const config = context.config(LOG_SETTINGS);
  return await context.withDatabase(async (database) => {
    const log = await openLog(context, database, config);
    const reader = log.createReader();
    try {
      return await work({ ...database, log, reader });
    } finally {
      await reader.close();
      await log.close();
    }
  });
}

/**
 * Runs `work` with a reader of the event log and the database, and closes both afterwards, also
 * after an error.
 */
export async function withLogReader<T>(
  context: CommandContext,
  work: (reader: LogReader, database: OpenDatabase) => Promise<T>,
): Promise<T> {
  return await withLog(context, ({ reader, ...database }) => work(reader, database));
}

/**
 * Opens the configured event log: Kafka, or the embedded log. Throws AppError `LOG_NOT_CONFIGURED`.
 */
export async function openLog(
  context: CommandContext,
  database: OpenDatabase,
  config: Config<KafkaSetting>,
): Promise<EventLog> {
  if (config.KAFKA_BROKERS) {
    // kafkajs is loaded only when needed, since its load time exceeds that of everything else.
    const { createKafkaLog } = await import('../shared/log/kafka/kafka-log.ts');
    return createKafkaLog({ ...kafkaOptionsOf(config), clientId: 'sluice-cli', logger: context.logger });
  }
  if (!database.embedded) {
    throw new AppError(
      'LOG_NOT_CONFIGURED',
      'KAFKA_BROKERS is not set: set it to the brokers of the event log, for example KAFKA_BROKERS=localhost:9092',
    );
  }
  return createEmbeddedLog({ pool: database.pool, clock: context.clock, logger: context.logger });
}
