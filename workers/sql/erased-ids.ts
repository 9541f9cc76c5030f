import type { Queryable } from '../../shared/postgres/pool.ts';

/** Deletes up to `rowsMax` erased ids that are older than `beforeMs`, and returns their number. */
export async function sweepErasedIds(db: Queryable, beforeMs: number, rowsMax: number): Promise<number> {
  if (!Number.isFinite(beforeMs)) return 0;
  const { rowCount } = await db.query(
    `delete from erased_ids
      where number in (
        select number from erased_ids where erased_at < $1 order by number limit $2 for update skip locked
      )`,
    [new Date(beforeMs), rowsMax],
  );
  return rowCount ?? 0;
}
