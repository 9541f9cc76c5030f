import type { ErasedId } from '../../shared/postgres/erased-ids.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/** Key of the advisory lock that gives changes of erased ids their order; an arbitrary number. */
const ORDER_LOCK = 7_305_411_926;

/** Stores erased ids, in the caller's transaction. */
export async function insertErasedIds(db: Queryable, ids: readonly ErasedId[]): Promise<void> {
  await db.query('select pg_advisory_xact_lock($1)', [ORDER_LOCK]);
  for (const { tenantId, subject, idSha256, erasedAtMs } of ids) {
    await db.query(
      `insert into erased_ids as before (tenant_id, subject, id_sha256, erased_at, number)
       values ($1, $2, decode($3, 'hex'), $4, nextval('erased_ids_number'))
       on conflict (tenant_id, subject, id_sha256) do update
          set erased_at = greatest(before.erased_at, excluded.erased_at), number = excluded.number`,
      [tenantId, subject, idSha256, new Date(erasedAtMs)],
    );
  }
}
