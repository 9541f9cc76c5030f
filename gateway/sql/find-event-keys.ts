import type { Kind } from '../../shared/contracts/kinds.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/** What became of a record with a caller's id. */
export interface StoredKey {
  readonly key: string;
  /** SHA-256 in hex; undefined where the kind has none. */
  readonly contentHash: string | undefined;
  readonly status: 'stored' | 'dead-lettered';
}

interface Row {
  key: string;
  content_hash: string | null;
  status: StoredKey['status'];
}

/**
 * The keys of a tenant and kind that are known among `keys`: those whose time is over may be there for a while, and are free.
 * Rejects after `deadlineMs`.
 */
export async function findEventKeys(
  pool: Pool,
  tenantId: string,
  kind: Kind,
  keys: readonly string[],
  { nowMs, deadlineMs }: { readonly nowMs: number; readonly deadlineMs: number },
): Promise<StoredKey[]> {
  const rows = await queryWithDeadline<Row>(
    pool,
    deadlineMs,
    `select key, encode(content_hash, 'hex') as content_hash, status
       from event_keys
      where tenant_id = $1 and kind = $2 and key = any($3::text[]) and expires_at > $4::timestamptz`,
    [tenantId, kind, keys, new Date(nowMs).toISOString()],
  );
  return rows.map((row) => ({
    key: row.key,
    contentHash: row.content_hash ?? undefined,
    status: row.status,
  }));
}
