import type { z } from 'zod';
import { membersOf } from '../../shared/kinds/members.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { type Column, type ColumnType, insertRows } from '../../shared/postgres/unnest.ts';
import { readInPages } from './read-in-pages.ts';

/**
 * What agents and conversations share: a table of current rows, made by merge patches, and a table
 * of every patch. The functions here are the operations on such a pair; agents.ts and
 * conversations.ts name the tables.
 */
export interface EntityTables {
  readonly current: string;
  readonly history: string;
  readonly idColumn: string;
  readonly columns: readonly { readonly name: string; readonly type: ColumnType }[];
}

/** Returns the columns that merge patches change: the members of a record without its ids. */
export function patchColumns(schema: z.ZodType, entityMember: string): EntityTables['columns'] {
  return membersOf(schema)
    .filter(({ name }) => name !== 'eventId' && name !== entityMember)
    .map(({ column }) => column);
}

export interface EntityId {
  readonly tenantId: string;
  readonly entity: string;
}

export type ColumnValue = string | number | bigint | readonly string[] | null;
/** Values of the current row by column name; a column without one is NULL. */
export type ColumnValues = Readonly<Record<string, ColumnValue>>;

/** Position of a record in its entity's order. */
export interface OrderedAt {
  readonly generation: number;
  readonly offset: bigint;
}

export interface ReadAt extends OrderedAt {
  readonly partition: number;
}

/** A current row: the state that the entity's records result in. */
export interface EntityVersion<State> extends EntityId {
  readonly state: State;
  /** The newest record in the entity's order. */
  readonly newest: OrderedAt;
  /** The record that was read last. */
  readonly lastRead: ReadAt;
}

export interface PatchRow extends EntityId, ReadAt {
  readonly acceptedAtMs: number;
  readonly eventId: string;
  readonly requestId: string;
  /** The patch as JSON text. */
  readonly patch: string;
}

/** Appends patches to the history. */
export async function insertPatches(
  db: Queryable,
  tables: EntityTables,
  rows: readonly PatchRow[],
  nowMs: number,
): Promise<void> {
  const columns: Column<PatchRow>[] = [
    { name: 'tenant_id', type: 'text', value: (row) => row.tenantId },
    { name: tables.idColumn, type: 'text', value: (row) => row.entity },
    { name: 'accepted_at', type: 'timestamptz', value: (row) => row.acceptedAtMs },
    { name: 'generation', type: 'integer', value: (row) => row.generation },
    { name: 'partition', type: 'integer', value: (row) => row.partition },
    { name: 'offset', type: 'bigint', value: (row) => row.offset },
    { name: 'event_id', type: 'text', value: (row) => row.eventId },
    { name: 'request_id', type: 'text', value: (row) => row.requestId },
    { name: 'patch', type: 'json', value: (row) => row.patch },
    { name: 'stored_at', type: 'timestamptz', value: () => nowMs },
  ];
  const { text, values } = insertRows(tables.history, columns, rows);
  await db.query(text, values);
}

/** Resolves with the current rows of the entities (sorted) that have one, locked in that order. */
export async function lockEntities(
  db: Queryable,
  tables: EntityTables,
  ids: readonly EntityId[],
): Promise<EntityVersion<ColumnValues>[]> {
  // The driver would parse json; it is kept as text.
  const columns = tables.columns.map(({ name, type }) => `c."${name}"${type === 'json' ? '::text' : ''}`);
  const { rows } = await db.query<CurrentRow & Record<string, ColumnValue>>(
    `select c.tenant_id as key_tenant_id, c.${tables.idColumn} as key_entity, c.generation as key_generation,
            c."offset" as key_offset, c.read_generation as key_read_generation,
            c.read_partition as key_read_partition, c.read_offset as key_read_offset, ${columns.join(', ')}
     from unnest($1::text[], $2::text[]) with ordinality as wanted (tenant_id, entity, place)
     join ${tables.current} c on c.tenant_id = wanted.tenant_id and c.${tables.idColumn} = wanted.entity
     order by wanted.place
     for update of c`,
    [ids.map((id) => id.tenantId), ids.map((id) => id.entity)],
  );
  return rows.map((row) => ({
    tenantId: row.key_tenant_id,
    entity: row.key_entity,
    state: Object.fromEntries(tables.columns.map(({ name }) => [name, row[name] ?? null])),
    newest: { generation: row.key_generation, offset: row.key_offset },
    lastRead: {
      generation: row.key_read_generation,
      partition: row.key_read_partition,
      offset: row.key_read_offset,
    },
  }));
}

interface CurrentRow {
  readonly key_tenant_id: string;
  readonly key_entity: string;
  readonly key_generation: number;
  readonly key_offset: bigint;
  readonly key_read_generation: number;
  readonly key_read_partition: number;
  readonly key_read_offset: bigint;
}

export interface StoredPatch extends EntityId, OrderedAt {
  /** JSON text. */
  readonly patch: string;
}

/**
 * Yields all patches of the entities in pages, each entity's in its order; see {@link readInPages}.
 */
export function readPatches(
  db: Queryable,
  tables: EntityTables,
  ids: readonly EntityId[],
): AsyncIterable<StoredPatch[]> {
  return readInPages<StoredPatch & Record<string, unknown>>(
    db,
    `select h.tenant_id as "tenantId", h.${tables.idColumn} as entity, h.generation, h."offset", h.patch::text as patch
     from unnest($1::text[], $2::text[]) as wanted (tenant_id, entity)
     join ${tables.history} h on h.tenant_id = wanted.tenant_id and h.${tables.idColumn} = wanted.entity
     order by h.tenant_id, h.${tables.idColumn}, h.generation, h."offset"`,
    [ids.map((id) => id.tenantId), ids.map((id) => id.entity)],
  );
}

/** Writes current rows (distinct, sorted): new ones, and those locked by {@link lockEntities}. */
export async function upsertEntities(
  db: Queryable,
  tables: EntityTables,
  versions: readonly EntityVersion<ColumnValues>[],
  nowMs: number,
): Promise<void> {
  const valueColumns: Column<EntityVersion<ColumnValues>>[] = [
    ...tables.columns.map(({ name, type }) => ({
      name,
      type,
      value: (version: EntityVersion<ColumnValues>) => version.state[name],
    })),
    ...versionColumns<ColumnValues>(nowMs),
  ];
  const { text, values } = insertRows(
    tables.current,
    [
      { name: 'tenant_id', type: 'text', value: (version) => version.tenantId },
      { name: tables.idColumn, type: 'text', value: (version) => version.entity },
      ...valueColumns,
    ],
    versions,
    `on conflict (tenant_id, ${tables.idColumn}) do update set ${assignExcluded(valueColumns)}`,
  );
  await db.query(text, values);
}

/** Returns the columns that every current row has in addition to its values. */
export function versionColumns<State>(nowMs: number): Column<EntityVersion<State>>[] {
  return [
    { name: 'generation', type: 'integer', value: (version) => version.newest.generation },
    { name: 'offset', type: 'bigint', value: (version) => version.newest.offset },
    { name: 'read_generation', type: 'integer', value: (version) => version.lastRead.generation },
    { name: 'read_partition', type: 'integer', value: (version) => version.lastRead.partition },
    { name: 'read_offset', type: 'bigint', value: (version) => version.lastRead.offset },
    { name: 'updated_at', type: 'timestamptz', value: () => nowMs },
  ];
}

export function assignExcluded(columns: readonly { readonly name: string }[]): string {
  return columns.map(({ name }) => `"${name}" = excluded."${name}"`).join(', ');
}
