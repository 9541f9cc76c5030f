import type { Queryable } from './pool.ts';

/**
 * Runs statements of which none needs the result of another, and resolves with their results in
 * order. A pipelined connection sends all of them at once, and the server executes them in order:
 * they take one round trip together. On any other connection they run one after another.
 *
 * Rejects with the error of the first one that failed, once all have ended. In a transaction the
 * ones after it only fail because it has failed.
 */
export async function runTogether<T>(db: Queryable, statements: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  if (!db.pipeline) {
    for (const run of statements) results.push(await run());
    return results;
  }
  for (const outcome of await Promise.allSettled(statements.map((run) => run()))) {
    if (outcome.status === 'rejected') throw outcome.reason;
    results.push(outcome.value);
  }
  return results;
}
