import type { z } from 'zod';
import { agentSchema } from '../../shared/kinds/agent-metadata.ts';
import { conversationSchema } from '../../shared/kinds/conversation-metadata.ts';
import { type Member, membersOf } from '../../shared/kinds/members.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { byTenant } from './by-tenant.ts';
import { readInPages } from './read-in-pages.ts';

/**
 * A table of current rows, made by merge patches, and a table of every patch. Agents and
 * conversations have such a pair of tables.
 */
export interface EntityTables {
  readonly current: string;
  readonly history: string;
  readonly idColumn: string;
  /** The members that merge patches change, with their columns. */
  readonly members: readonly Member[];
}

export const AGENT_TABLES: EntityTables = {
  current: 'agents',
  history: 'agent_records',
  idColumn: 'external_agent_id',
  members: patchMembers(agentSchema, 'externalAgentId'),
};

export const CONVERSATION_TABLES: EntityTables = {
  current: 'conversations',
  history: 'conversation_records',
  idColumn: 'external_conversation_id',
  members: patchMembers(conversationSchema, 'externalConversationId'),
};

/** Returns the members of a record without its ids. */
function patchMembers(schema: z.ZodType, entityMember: string): Member[] {
  return membersOf(schema).filter(({ name }) => name !== 'eventId' && name !== entityMember);
}

export interface EntityId {
  readonly tenantId: string;
  readonly entity: string;
}

export type ColumnValue = string | number | bigint | readonly string[] | null;
/** Values of the current row by column name; columns without a value are NULL. */
export type ColumnValues = Readonly<Record<string, ColumnValue>>;

/** Position of a record in its entity's order. */
export interface OrderedAt {
  readonly generation: number;
  readonly offset: bigint;
}

export interface ReadAt extends OrderedAt {
  readonly partition: number;
}

/** A current row: the result of the entity's records. */
export interface EntityVersion<State> extends EntityId {
  readonly state: State;
  /** The position of the newest record in the entity's order. */
  readonly newest: OrderedAt;
  /** The position of the record that was read last. */
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
    { name: 'stored_at', type: 'timestamptz', same: nowMs },
  ];
  await insertRows(db, tables.history, columns, rows);
}

/**
 * Locks the current rows of the entities (sorted) in that order, and resolves with those that
 * exist.
 */
export async function lockEntities(
  db: Queryable,
  tables: EntityTables,
  ids: readonly EntityId[],
): Promise<EntityVersion<ColumnValues>[]> {
  return await byTenant(ids, (tenantId, ofTenant) =>
    lockOfTenant(
      db,
      tables,
      tenantId,
      ofTenant.map(({ entity }) => entity),
    ),
  );
}

async function lockOfTenant(
  db: Queryable,
  { current, idColumn, members }: EntityTables,
  tenantId: string,
  entities: readonly string[],
): Promise<EntityVersion<ColumnValues>[]> {
  // The columns are selected as text, because the driver would parse json. No column has the name
  // of a member of LockedRow.
  const values = members.map(({ column: { name, type } }) => `c."${name}"${type === 'json' ? '::text' : ''}`);
  const { rows } = await db.query<LockedRow & Record<string, ColumnValue>>(
    `select c.${idColumn} as entity, c.generation, c."offset", c.read_generation as "readGeneration",
            c.read_partition as "readPartition", c.read_offset as "readOffset", ${values.join(', ')}
       from unnest($2::text[]) with ordinality as wanted (entity, place)
       join ${current} c on c.tenant_id = $1 and c.${idColumn} = wanted.entity
      order by wanted.place
        for update of c`,
    [tenantId, entities],
  );
  return rows.map(({ entity, generation, offset, readGeneration, readPartition, readOffset, ...state }) => ({
    tenantId,
    entity,
    state,
    newest: { generation, offset },
    lastRead: { generation: readGeneration, partition: readPartition, offset: readOffset },
  }));
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
  /** The patch as JSON text. */
  readonly patch: string;
}

/**
 * Yields all patches of the entities in pages, each entity's patches in order; see {@link
 * readInPages}.
 */
export function readPatches(
  db: Queryable,
  tables: EntityTables,
  ids: readonly EntityId[],
): AsyncIterable<StoredPatch[]> {
  return readInPages<StoredPatch>(
    db,
    `select h.tenant_id as "tenantId", h.${tables.idColumn} as entity, h.generation, h."offset", h.patch::text as patch
       from unnest($1::text[], $2::text[]) as wanted (tenant_id, entity)
       join ${tables.history} h on h.tenant_id = wanted.tenant_id and h.${tables.idColumn} = wanted.entity
      order by h.tenant_id, h.${tables.idColumn}, h.generation, h."offset"`,
    [ids.map((id) => id.tenantId), ids.map((id) => id.entity)],
  );
}

/** Writes current rows (distinct, sorted): new rows, and rows locked by {@link lockEntities}. */
export async function upsertEntities(
  db: Queryable,
  tables: EntityTables,
  versions: readonly EntityVersion<ColumnValues>[],
  nowMs: number,
): Promise<void> {
  const valueColumns: Column<EntityVersion<ColumnValues>>[] = [
    ...tables.members.map(({ column: { name, type } }) => ({
      name,
      type,
      value: (version: EntityVersion<ColumnValues>) => version.state[name],
    })),
    ...versionColumns<ColumnValues>(nowMs),
  ];
  await insertRows(
    db,
    tables.current,
    [
      { name: 'tenant_id', type: 'text', value: (version) => version.tenantId },
      { name: tables.idColumn, type: 'text', value: (version) => version.entity },
      ...valueColumns,
    ],
    versions,
    `on conflict (tenant_id, ${tables.idColumn}) do update set ${assignExcluded(valueColumns)}`,
  );
}

/** Returns the columns that every current row has in addition to its values. */
export function versionColumns<State>(nowMs: number): Column<EntityVersion<State>>[] {
  return [
    { name: 'generation', type: 'integer', value: (version) => version.newest.generation },
    { name: 'offset', type: 'bigint', value: (version) => version.newest.offset },
    { name: 'read_generation', type: 'integer', value: (version) => version.lastRead.generation },
    { name: 'read_partition', type: 'integer', value: (version) => version.lastRead.partition },
    { name: 'read_offset', type: 'bigint', value: (version) => version.lastRead.offset },
    { name: 'updated_at', type: 'timestamptz', same: nowMs },
  ];
}

export function assignExcluded(columns: readonly { readonly name: string }[]): string {
  return columns.map(({ name }) => `"${name}" = excluded."${name}"`).join(', ');
}
