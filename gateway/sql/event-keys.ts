import type { Kind } from '../../shared/contracts/kinds.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { queryPreparedWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/** The stored status of an id that a caller chose. */
export interface StoredKey {
  readonly key: string;
  /** SHA-256 in hex; undefined for kinds without a content hash. */
  readonly contentHash: string | undefined;
  readonly status: 'stored' | 'dead-lettered';
}

/** Planning takes five times as long as running, because of the partitions of the table. */
const FIND = {
  name: 'find-event-keys',
  text: `select key, encode(content_hash, 'hex') as "contentHash", status
           from event_keys
          where tenant_id = $1 and kind = $2 and key = any($3::text[]) and expires_at > $4::timestamptz`,
};

/**
 * Returns which of `keys` are stored as ids of a tenant and kind. Leaves out ids that have
 * expired but are not deleted yet. Rejects after `deadlineMs`.
 */
export async function findEventKeys(
  pool: Pool,
  tenantId: string,
  kind: Kind,
  keys: readonly string[],
  { nowMs, deadlineMs }: { readonly nowMs: number; readonly deadlineMs: number },
): Promise<StoredKey[]> {
  const values = [tenantId, kind, keys, new Date(nowMs)];
  const rows = await queryPreparedWithDeadline<
    Omit<StoredKey, 'contentHash'> & { contentHash: string | null }
  >(pool, deadlineMs, FIND, values);
  return rows.map((row) => ({ ...row, contentHash: row.contentHash ?? undefined }));
}
