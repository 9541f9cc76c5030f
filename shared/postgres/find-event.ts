import type { Kind } from '../contracts/kinds.ts';
import type { Queryable } from './pool.ts';

/** What became of a record. */
export interface EventTrace {
  readonly id: string;
  readonly kind: Kind;
  readonly status: 'stored' | 'dead-lettered';
  readonly acceptedAtMs: number;
  /** When it was stored, or given up. */
  readonly storedAtMs: number;
  /** How many times other content came under its id. */
  readonly conflicts: number;
  /** Why it was dead-lettered. */
  readonly error: string | null;
}

interface Row {
  readonly key: string;
  readonly kind: Kind;
  readonly status: 'stored' | 'dead-lettered';
  readonly accepted_at: Date;
  readonly stored_at: Date;
  readonly conflicts: number;
  readonly error: string | null;
}

/** The records of these kinds that have the id, sorted by kind. */
export async function findEvents(
  db: Queryable,
  tenantId: string,
  id: string,
  kinds: readonly Kind[],
): Promise<EventTrace[]> {
  const { rows } = await db.query<Row>(
    `select key, kind, status, accepted_at, stored_at, conflicts, error
       from event_keys
      where tenant_id = $1 and kind = any($2::text[]) and key = $3
      order by kind`,
    [tenantId, kinds, id],
  );
  return rows.map((row) => ({
    id: row.key,
    kind: row.kind,
    status: row.status,
    acceptedAtMs: row.accepted_at.getTime(),
    storedAtMs: row.stored_at.getTime(),
    conflicts: row.conflicts,
    error: row.error,
  }));
}
