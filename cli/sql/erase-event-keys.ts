import type { Kind } from '../../shared/contracts/kinds.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/**
 * Deletes ids of records, or only those with a status, and resolves with their number. Locks them in the
 * order in which workers do.
 */
export async function deleteEventKeys(
  db: Queryable,
  tenantId: string,
  kind: Kind,
  keys: readonly string[],
  status?: 'dead-lettered',
): Promise<number> {
  if (keys.length === 0) return 0;
  const { rowCount } = await db.query(
    `delete from event_keys
      where tenant_id = $1 and kind = $2 and key in (
        select key from event_keys
         where tenant_id = $1 and kind = $2 and key = any($3::text[]) and ($4::text is null or status = $4)
         order by key for update
      )`,
    [tenantId, kind, keys, status],
  );
  return rowCount ?? 0;
}

/** The columns of an id that say what became of it. */
const COLUMNS = `tenant_id, kind, content_hash, status, conflicts, error, generation, partition, "offset", accepted_at,
       stored_at, updated_at, expires_at, conflict_hash, conflict_at, conflict_generation, conflict_partition, conflict_offset`;

/** Replaces ids of records, and resolves with their number. */
export async function replaceEventKeys(
  db: Queryable,
  tenantId: string,
  kind: Kind,
  keys: readonly { readonly before: string; readonly after: string }[],
): Promise<number> {
  const before = keys.map((key) => key.before);
  const { rows } = await db.query(
    `with gone as (
       delete from event_keys
        where tenant_id = $1 and kind = $2 and key in (
          select key from event_keys
           where tenant_id = $1 and kind = $2 and key = any($3::text[]) order by key for update
        )
       returning key, ${COLUMNS}
     )
     insert into event_keys (key, ${COLUMNS})
     select changed.after, ${COLUMNS}
       from gone join unnest($3::text[], $4::text[]) as changed (before, after) on changed.before = gone.key
     on conflict (key, tenant_id, kind) do nothing
     returning tenant_id`,
    [tenantId, kind, before, keys.map((key) => key.after)],
  );
  return rows.length;
}
