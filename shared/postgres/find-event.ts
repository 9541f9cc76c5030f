import type { Kind } from '../contracts/kinds.ts';
import { epochMs, toMs } from './epoch-ms.ts';
import type { Queryable } from './pool.ts';

export interface TracePosition {
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
}

/** The status of a record. */
export interface EventTrace {
  readonly id: string;
  readonly kind: Kind;
  readonly status: 'stored' | 'dead-lettered';
  readonly acceptedAtMs: number;
  /** When it was stored, or set aside as a dead letter. */
  readonly storedAtMs: number;
  /** Its first position; also the name of its dead letter, if it is one. */
  readonly position: TracePosition;
  /** How many conflicting records came under its id. */
  readonly conflicts: number;
  /** When the last conflict came, and the position that names its dead letter. */
  readonly lastConflict: { readonly atMs: number; readonly position: TracePosition } | null;
  /** Why it was dead-lettered. */
  readonly error: string | null;
}

interface Row {
  readonly key: string;
  readonly kind: Kind;
  readonly status: 'stored' | 'dead-lettered';
  readonly accepted_at_ms: bigint;
  readonly stored_at_ms: bigint;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
  readonly conflicts: number;
  readonly conflict_at_ms: bigint | null;
  readonly conflict_generation: number | null;
  readonly conflict_partition: number | null;
  readonly conflict_offset: bigint | null;
  readonly error: string | null;
}

/** Returns the records of these kinds that have the id, sorted by kind. */
export async function findEvents(
  db: Queryable,
  tenantId: string,
  id: string,
  kinds: readonly Kind[],
): Promise<EventTrace[]> {
  const { rows } = await db.query<Row>(
    `select key, kind, status, ${epochMs('accepted_at')} as accepted_at_ms, ${epochMs('stored_at')} as stored_at_ms,
            generation, partition, "offset", conflicts, ${epochMs('conflict_at')} as conflict_at_ms,
            conflict_generation, conflict_partition, conflict_offset, error
       from event_keys
      where tenant_id = $1 and kind = any($2::text[]) and key = $3
      order by kind`,
    [tenantId, kinds, id],
  );
  return rows.map((row) => ({
    id: row.key,
    kind: row.kind,
    status: row.status,
    acceptedAtMs: toMs(row.accepted_at_ms),
    storedAtMs: toMs(row.stored_at_ms),
    position: { generation: row.generation, partition: row.partition, offset: row.offset },
    conflicts: row.conflicts,
    lastConflict:
      row.conflict_at_ms === null
        ? null
        : {
            atMs: toMs(row.conflict_at_ms),
            position: {
              generation: row.conflict_generation!,
              partition: row.conflict_partition!,
              offset: row.conflict_offset!,
            },
          },
    error: row.error,
  }));
}
