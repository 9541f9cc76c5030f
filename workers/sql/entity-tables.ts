import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { EncodedRow } from '../../shared/postgres/encoded-rows.ts';
import type { EntityTables } from '../../shared/postgres/entity-tables.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import { readInPages } from './read-in-pages.ts';
import { lateReadColumns, lateReadOf, type OrderedAt, type ReadAt } from './read-positions.ts';

export interface EntityId {
  readonly tenantId: string;
  readonly entity: string;
}

/** Returns a text that identifies the entity among those of all tenants. */
export function entityKey({ tenantId, entity }: EntityId): string {
  return `${tenantId.length}:${tenantId}${entity}`;
}

/** Returns the rows by {@link entityKey}. */
export function indexById<T extends EntityId>(rows: readonly T[]): Map<string, T> {
  return new Map(rows.map((row) => [entityKey(row), row]));
}

export type ColumnValue = string | number | bigint | readonly string[] | null;

/** The positions up to which an entity's records are in its current row. */
export interface EntityPositions {
  /** The position of the newest record in the entity's order. */
  readonly newest: OrderedAt;
  /** The position of the record that was read last. */
  readonly lastRead: ReadAt;
}

/** A current row: the result of the entity's records. */
export interface EntityVersion<State> extends EntityId, EntityPositions {
  readonly state: State;
}

export interface PatchRow {
  readonly event: {
    readonly tenantId: string;
    readonly entity: string;
    readonly id: string;
    readonly acceptedAtMs: number;
    readonly requestId: string;
  };
  readonly read: ReadAt;
  readonly firstPosition: ReadAt;
  /** The values of the members, then the patch as JSON text. */
  readonly row: EncodedRow;
}

/** Appends patches to the history. */
export async function insertPatches(
  db: Queryable,
  tables: EntityTables,
  rows: readonly PatchRow[],
  nowMs: number,
): Promise<void> {
  const columns: Column<PatchRow>[] = [
    { name: 'tenant_id', type: 'text', value: ({ event }) => event.tenantId },
    { name: tables.idColumn, type: 'text', value: ({ event }) => event.entity },
    { name: 'accepted_at', type: 'timestamptz', value: ({ event }) => event.acceptedAtMs },
    { name: 'generation', type: 'integer', value: ({ firstPosition }) => firstPosition.generation },
    { name: 'partition', type: 'integer', value: ({ firstPosition }) => firstPosition.partition },
    { name: 'offset', type: 'bigint', value: ({ firstPosition }) => firstPosition.offset },
    { name: 'event_id', type: 'text', value: ({ event }) => event.id },
    { name: 'request_id', type: 'text', value: ({ event }) => event.requestId },
    { name: 'patch', type: 'json', encoded: ({ row }) => row, index: tables.members.length },
    ...lateReadColumns(rows, lateReadOf),
    { name: 'stored_at', type: 'timestamptz', same: nowMs },
  ];
  await insertRows(withoutAnswer(db), tables.history, columns, rows);
}

/** The position columns of a locked row. */
export interface LockedRow {
  readonly entity: string;
  readonly generation: number;
  readonly offset: bigint;
  readonly readGeneration: number;
  readonly readPartition: number;
  readonly readOffset: bigint;
}

export interface StoredPatch extends EntityId, OrderedAt {
  readonly acceptedAtMs: number;
  /** The patch as JSON text. */
  readonly patch: string;
}

/**
 * Yields all patches of the entities in pages, each entity's patches in order; see {@link
 * readInPages}. A patch may be there twice, while its week is being folded into the bases.
 */
export function readPatches(
  db: Queryable,
  tables: EntityTables,
  ids: readonly EntityId[],
): AsyncIterable<StoredPatch[]> {
  const columns = `tenant_id, ${tables.idColumn}, generation, "offset", accepted_at, patch`;
  return readInPages<StoredPatch>(
    db,
    `select h.tenant_id as "tenantId", h.${tables.idColumn} as entity, h.generation, h."offset",
            ${epochMs('h.accepted_at')} as "acceptedAtMs", h.patch::text as patch
       from unnest($1::text[], $2::text[]) as wanted (tenant_id, entity)
       join (select ${columns} from ${tables.history} union all select ${columns} from ${tables.bases}) h
         on h.tenant_id = wanted.tenant_id and h.${tables.idColumn} = wanted.entity
      order by h.tenant_id, h.${tables.idColumn}, h.generation, h."offset"`,
    [ids.map((id) => id.tenantId), ids.map((id) => id.entity)],
  );
}

/** Returns the columns that every current row has in addition to its values. */
export function positionColumns<Row extends EntityPositions>(nowMs: number): Column<Row>[] {
  return [
    { name: 'generation', type: 'integer', value: ({ newest }) => newest.generation },
    { name: 'offset', type: 'bigint', value: ({ newest }) => newest.offset },
    { name: 'read_generation', type: 'integer', value: ({ lastRead }) => lastRead.generation },
    { name: 'read_partition', type: 'integer', value: ({ lastRead }) => lastRead.partition },
    { name: 'read_offset', type: 'bigint', value: ({ lastRead }) => lastRead.offset },
    { name: 'updated_at', type: 'timestamptz', same: nowMs },
  ];
}

export function assignExcluded(columns: readonly { readonly name: string }[]): string {
  return columns.map(({ name }) => `"${name}" = excluded."${name}"`).join(', ');
}
