import type { TopicPosition } from '../contracts/first-position.ts';
import type { Kind } from '../contracts/kinds.ts';
import type { Queryable } from './pool.ts';
import { epochMs } from './times.ts';

/** The status of a record. */
export interface EventTrace {
  readonly id: string;
  readonly kind: Kind;
  readonly status: 'stored' | 'dead-lettered';
  readonly acceptedAtMs: number;
  /** When the record was stored, or became a dead letter. */
  readonly storedAtMs: number;
  /** The record's first position, which also identifies its dead letter. */
  readonly position: TopicPosition;
  /** Number of conflicting records with the same id. */
  readonly conflicts: number;
  /** The time of the last conflict, and the position that identifies its dead letter. */
  readonly lastConflict: { readonly atMs: number; readonly position: TopicPosition } | null;
  /** The reason why the record became a dead letter. */
  readonly error: string | null;
}

interface Row extends Omit<EventTrace, 'position' | 'lastConflict'>, TopicPosition {
  readonly conflictAtMs: number | null;
  readonly conflictGeneration: number | null;
  readonly conflictPartition: number | null;
  readonly conflictOffset: bigint | null;
}

/** Returns the records of these kinds with the id, sorted by kind. */
export async function findEvents(
  db: Queryable,
  tenantId: string,
  id: string,
  kinds: readonly Kind[],
): Promise<EventTrace[]> {
  const { rows } = await db.query<Row>(
    `select key as id, kind, status, ${epochMs('accepted_at')} as "acceptedAtMs",
            ${epochMs('stored_at')} as "storedAtMs", generation, partition, "offset", conflicts,
            ${epochMs('conflict_at')} as "conflictAtMs", conflict_generation as "conflictGeneration",
            conflict_partition as "conflictPartition", conflict_offset as "conflictOffset", error
       from event_keys
      where tenant_id = $1 and kind = any($2::text[]) and key = $3
      order by kind`,
    [tenantId, kinds, id],
  );
  return rows.map(toTrace);
}

function toTrace(row: Row): EventTrace {
  return {
    id: row.id,
    kind: row.kind,
    status: row.status,
    acceptedAtMs: row.acceptedAtMs,
    storedAtMs: row.storedAtMs,
    position: { generation: row.generation, partition: row.partition, offset: row.offset },
    conflicts: row.conflicts,
    lastConflict:
      row.conflictAtMs === null
        ? null
        : {
            atMs: row.conflictAtMs,
            position: {
              generation: row.conflictGeneration!,
              partition: row.conflictPartition!,
              offset: row.conflictOffset!,
            },
          },
    error: row.error,
  };
}
