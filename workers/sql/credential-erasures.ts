import type { Queryable } from '../../shared/postgres/pool.ts';

/** Deletes up to `rowsMax` erasures that are older than `beforeMs`, and returns their number. */
export async function sweepErasures(db: Queryable, beforeMs: number, rowsMax: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from credential_erasures
      where (tenant_id, conversation_id) in (
        select tenant_id, conversation_id from credential_erasures
         where erased_at < $1 order by erased_at limit $2 for update skip locked
      )`,
    [new Date(beforeMs), rowsMax],
  );
  return rowCount ?? 0;
}
