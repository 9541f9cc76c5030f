import { LOG_SETTINGS } from '../shared/config.ts';
import type { LogReader } from '../shared/log/log.ts';
import { openLog } from './commands/topics.ts';
import type { CommandContext } from './context.ts';
import type { OpenDatabase } from './database.ts';

/** Runs `work` with a reader of the event log and the database, and closes both whatever happens. */
export async function withLogReader<T>(
  context: CommandContext,
  work: (reader: LogReader, database: OpenDatabase) => Promise<T>,
): Promise<T> {
  const config = context.config(LOG_SETTINGS);
  return await context.withDatabase(async (database) => {
    const log = await openLog(context, database, config);
    const reader = log.createReader();
    try {
      return await work(reader, database);
    } finally {
      await reader.close();
      await log.close();
    }
  });
}
