import type { Queryable } from './queryable.ts';

/**
 * Runs statements of which none needs the result of another, and resolves with their results in
 * order. A pipelined connection sends all of them at once, and the server executes them in order:
 * they take one round trip together. On any other connection they run one after another.
 *
 * Rejects with the error of the first one that failed, once all have ended. In a transaction the
 * ones after it only fail because it has failed.
 */
export async function runTogether<T extends readonly unknown[]>(
  db: Queryable,
  statements: { readonly [K in keyof T]: () => Promise<T[K]> },
): Promise<T> {
  const results: unknown[] = [];
  if (!db.pipeline) {
    for (const run of statements) results.push(await run());
  } else {
    for (const outcome of await Promise.allSettled(statements.map((run) => run()))) {
      if (outcome.status === 'rejected') throw outcome.reason;
      results.push(outcome.value);
    }
  }
  return results as readonly unknown[] as T;
}

/**
 * Returns the connection for statements whose results nobody needs. In a pipelined transaction, they
 * resolve when they are sent, so that they take no round trip of their own. Otherwise returns the
 * connection itself.
 */
export function withoutAnswer(db: Queryable): Queryable {
  return db.unanswered ?? db;
}
