import { errorMessage } from '../shared/errors.ts';
import type { EventLog } from '../shared/log/log.ts';
import type { Logger } from '../shared/logging.ts';
import { findImports } from '../shared/postgres/dead-letter-imports.ts';
import type { Pool } from '../shared/postgres/pool.ts';

export interface ImportWatchDeps {
  readonly pool: Pool;
  readonly log: Pick<EventLog, 'createReader'>;
  readonly logger: Logger;
  readonly prefix: string;
  /** Milliseconds between two checks. Default 10 minutes. */
  readonly intervalMs?: number;
}

/** Warns while dead-letter topics of earlier releases contain records that are not imported. */
export function startImportWatch(deps: ImportWatchDeps): { close(): Promise<void> } {
  const { intervalMs = 600_000 } = deps;
  let looking = look(deps);
  const timer = setInterval(() => {
    looking = looking.then(() => look(deps));
  }, intervalMs);
  timer.unref();
  return {
    async close() {
      clearInterval(timer);
      await looking;
    },
  };
}

async function look({ pool, log, logger, prefix }: ImportWatchDeps): Promise<void> {
  const reader = log.createReader();
  try {
    const ranges = await findImports(pool, reader, prefix);
    if (ranges.length === 0) return;
    const topics = [...new Set(ranges.map(({ topic }) => topic))];
    const records = Number(ranges.reduce((sum, { from, to }) => sum + (to - from), 0n));
    logger.warn({ topics, records, next: 'sluice dead-letters import' }, 'dead letters not imported');
  } catch (error) {
    // The workers already report a log or database that does not answer.
    logger.debug({ reason: errorMessage(error) }, 'dead-letter topics not checked');
  } finally {
    await reader.close();
  }
}
