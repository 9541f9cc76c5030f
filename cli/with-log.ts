import { LOG_SETTINGS } from '../shared/config.ts';
import type { EventLog, LogReader } from '../shared/log/log.ts';
import { openLog } from './commands/topics.ts';
import type { CommandContext } from './context.ts';
import type { OpenDatabase } from './database.ts';

/** What `work` gets: the log, a reader of it, and the database. */
export interface OpenedLog extends OpenDatabase {
  readonly log: EventLog;
  readonly reader: LogReader;
}

/** Runs `work` with the event log and the database, and closes both whatever happens. */
export async function withLog<T>(
  context: CommandContext,
  work: (opened: OpenedLog) => Promise<T>,
): Promise<T> {
  const config = context.config(LOG_SETTINGS);
  return await context.withDatabase(async (database) => {
    const log = openLog(context, database, config);
    const reader = log.createReader();
    try {
      return await work({ ...database, log, reader });
    } finally {
      await reader.close();
      await log.close();
    }
  });
}

/** Runs `work` with a reader of the event log and the database, and closes both whatever happens. */
export async function withLogReader<T>(
  context: CommandContext,
  work: (reader: LogReader, database: OpenDatabase) => Promise<T>,
): Promise<T> {
  return await withLog(context, ({ reader, ...database }) => work(reader, database));
}
