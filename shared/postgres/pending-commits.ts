import { sleep } from '../async.ts';
import { AppError } from '../errors.ts';
import type { Queryable } from './pool.ts';

const POLL_MS = 20;
/** Most commits take milliseconds. That of a worker which was down is finished by Citus within a minute. */
const WAIT_MAX_MS = 5000;

/**
 * Resolves when the workers of a Citus cluster have committed every transaction that the coordinator has
 * committed up to now. It commits first, so that for a moment its rows can be read without those of the
 * workers. Rejects with AppError `COMMIT_PENDING` (retryable) if that takes long.
 */
export async function untilCommittedOnWorkers(db: Queryable): Promise<void> {
  const endMs = performance.now() + WAIT_MAX_MS;
  let pending = await preparedTransactions(db);
  while (pending.size > 0) {
    if (performance.now() >= endMs) {
      throw new AppError(
        'COMMIT_PENDING',
        'a worker of the database has not finished a transaction since it was down: repeat in a minute',
        { retryable: true },
      );
    }
    await sleep(POLL_MS);
    const now = await preparedTransactions(db);
    pending = new Set([...pending].filter((id) => now.has(id)));
  }
}

/** Returns the transactions that are prepared on a worker, and neither committed nor rolled back. */
async function preparedTransactions(db: Queryable): Promise<ReadonlySet<string>> {
  const { rows } = await db.query<{ answered: boolean; ids: string }>(
    'select success as answered, result as ids from run_command_on_workers($1)',
    [
      `select coalesce(string_agg(gid, ' '), '') from pg_prepared_xacts
        where database = current_database() and starts_with(gid, 'citus_')`,
    ],
  );
  const silent = rows.find(({ answered }) => !answered);
  if (silent) throw new AppError('WORKER_UNREACHABLE', silent.ids, { retryable: true });
  return new Set(rows.flatMap(({ ids }) => (ids === '' ? [] : ids.split(' '))));
}
