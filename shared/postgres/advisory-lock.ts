import type { Queryable } from './pool.ts';

/** Takes an advisory lock until the transaction ends. Resolves with false if another one holds it. */
export async function tryAdvisoryLock(db: Queryable, key: number | bigint): Promise<boolean> {
  const { rows } = await db.query<{ locked: boolean }>(
    'select pg_try_advisory_xact_lock($1::bigint) as locked',
    [key],
  );
  return rows[0]!.locked;
}
