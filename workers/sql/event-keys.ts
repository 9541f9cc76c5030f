import type { Kind } from '../../shared/contracts/kinds.ts';
import { type Column, insertMissingRows, insertRows, unnestRows } from '../../shared/postgres/bulk-rows.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { SQLSTATE, sqlStateOf } from '../../shared/postgres/sqlstate.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import { byTenant, onShards } from './by-tenant.ts';

/** The status of a record, by its id. */
export interface EventKey {
  readonly tenantId: string;
  readonly key: string;
  /** SHA-256 in hex; null for kinds without content hashes. */
  readonly contentHash: string | null;
  readonly status: 'stored' | 'dead-lettered';
  /** Number of later records with the same id and other content. */
  readonly conflicts: number;
  /** The latest conflict. */
  readonly lastConflict: Conflict | null;
  /** The reason why the record is a dead letter, without any value of the record. */
  readonly error: string | null;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
  readonly acceptedAtMs: number;
  readonly storedAtMs: number;
  readonly updatedAtMs: number;
  readonly expiresAtMs: number;
}

/**
 * A record whose id is stored with other content. The position identifies the record's dead letter.
 */
export interface Conflict {
  readonly contentHash: string | null;
  readonly atMs: number;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
}

export interface EventKeyId {
  readonly tenantId: string;
  readonly key: string;
}

const DATA_COLUMNS: readonly Column<EventKey>[] = [
  { name: 'content_hash', type: 'hex', value: (key) => key.contentHash },
  { name: 'status', type: 'text', value: (key) => key.status },
  { name: 'conflicts', type: 'integer', value: (key) => key.conflicts },
  { name: 'error', type: 'text', value: (key) => key.error },
  { name: 'generation', type: 'integer', value: (key) => key.generation },
  { name: 'partition', type: 'integer', value: (key) => key.partition },
  { name: 'offset', type: 'bigint', value: (key) => key.offset },
  { name: 'accepted_at', type: 'timestamptz', value: (key) => key.acceptedAtMs },
  { name: 'stored_at', type: 'timestamptz', value: (key) => key.storedAtMs },
  { name: 'updated_at', type: 'timestamptz', value: (key) => key.updatedAtMs },
  { name: 'expires_at', type: 'timestamptz', value: (key) => key.expiresAtMs },
];

/** Columns that usually have one value for all new ids of a transaction. */
const MOSTLY_SAME: ReadonlySet<string> = new Set([
  'status',
  'conflicts',
  'error',
  'generation',
  'stored_at',
  'updated_at',
  'expires_at',
]);

/** Columns that are set only for ids with a conflict. New ids are inserted without them. */
const CONFLICT_COLUMNS: readonly Column<EventKey>[] = [
  { name: 'conflict_hash', type: 'hex', value: (key) => key.lastConflict?.contentHash },
  { name: 'conflict_at', type: 'timestamptz', value: (key) => key.lastConflict?.atMs },
  { name: 'conflict_generation', type: 'integer', value: (key) => key.lastConflict?.generation },
  { name: 'conflict_partition', type: 'integer', value: (key) => key.lastConflict?.partition },
  { name: 'conflict_offset', type: 'bigint', value: (key) => key.lastConflict?.offset },
];

function columnsOf(kind: Kind): Column<EventKey>[] {
  return [
    { name: 'tenant_id', type: 'text', value: (key) => key.tenantId },
    { name: 'kind', type: 'text', same: kind },
    { name: 'key', type: 'text', value: (key) => key.key },
    ...DATA_COLUMNS,
  ];
}

/**
 * Inserts ids (distinct, sorted) that do not exist yet, and resolves with the others, which exist.
 * Waits for concurrent inserts of the same ids.
 */
export async function insertEventKeys(
  db: Queryable,
  kind: Kind,
  keys: readonly EventKey[],
): Promise<EventKeyId[]> {
  if (keys.length === 0) return [];
  return await insertMissingRows(db, 'event_keys', compactColumnsOf(kind, keys), keys, {
    unique: 'tenant_id, kind, key',
    members: { tenantId: 'tenant_id', key: 'key' },
  });
}

/**
 * Inserts ids (distinct, sorted) with less work for the server. Resolves with false, and inserts
 * nothing, if one of them exists. Waits for concurrent inserts of the same ids.
 */
export async function insertNewEventKeys(
  db: Queryable,
  kind: Kind,
  keys: readonly EventKey[],
): Promise<boolean> {
  await withoutAnswer(db).query('savepoint new_ids');
  try {
    await insertRows(db, 'event_keys', compactColumnsOf(kind, keys), keys);
    return true;
  } catch (error) {
    if (sqlStateOf(error) !== SQLSTATE.UNIQUE_VIOLATION) throw error;
    await db.query('rollback to savepoint new_ids');
    return false;
  }
}

function compactColumnsOf(kind: Kind, keys: readonly EventKey[]): Column<EventKey>[] {
  return columnsOf(kind).map((column) => withSame(column, keys));
}

/** Returns the column with one value for all ids, if they have the same value. */
function withSame(column: Column<EventKey>, keys: readonly EventKey[]): Column<EventKey> {
  if (!('value' in column) || !MOSTLY_SAME.has(column.name)) return column;
  const same = column.value(keys[0]!);
  return keys.every((key) => column.value(key) === same)
    ? { name: column.name, type: column.type, same }
    : column;
}

/**
 * Locks the stored ids among these (distinct, sorted) in order until the transaction ends, and
 * resolves with them.
 */
export async function lockEventKeys(
  db: Queryable,
  kind: Kind,
  ids: readonly EventKeyId[],
): Promise<EventKey[]> {
  return await byTenant(db, ids, (tenantId, ofTenant) =>
    lockOfTenant(
      db,
      kind,
      tenantId,
      ofTenant.map(({ key }) => key),
    ),
  );
}

async function lockOfTenant(
  db: Queryable,
  kind: Kind,
  tenantId: string,
  keys: readonly string[],
): Promise<EventKey[]> {
  const { rows } = await db.query<LockedKey>(
    `select k.key, encode(k.content_hash, 'hex') as "contentHash", k.status, k.conflicts, k.error,
            k.generation, k.partition, k."offset", ${epochMs('k.accepted_at')} as "acceptedAtMs",
            ${epochMs('k.stored_at')} as "storedAtMs", ${epochMs('k.updated_at')} as "updatedAtMs",
            ${epochMs('k.expires_at')} as "expiresAtMs", encode(k.conflict_hash, 'hex') as "conflictHash",
            ${epochMs('k.conflict_at')} as "conflictAtMs", k.conflict_generation as "conflictGeneration",
            k.conflict_partition as "conflictPartition", k.conflict_offset as "conflictOffset"
       from unnest($3::text[]) with ordinality as wanted (key, place)
       join event_keys k on k.tenant_id = $1 and k.kind = $2 and k.key = wanted.key
      order by wanted.place
        for update of k`,
    [tenantId, kind, keys],
  );
  return rows.map((row) => toEventKey(tenantId, row));
}

/** Updates ids that are locked by {@link lockEventKeys} or by this transaction's insert. */
export async function updateEventKeys(db: Queryable, kind: Kind, keys: readonly EventKey[]): Promise<void> {
  if (keys.length === 0) return;
  const assignments = [...DATA_COLUMNS, ...CONFLICT_COLUMNS]
    .map(({ name }) => `"${name}" = new."${name}"`)
    .join(', ');
  await onShards(db, keys, async (part, tenantOf) => {
    const { select, values } = unnestRows([...columnsOf(kind), ...CONFLICT_COLUMNS], part);
    return await db.query(
      `update event_keys k set ${assignments} from (${select}) as new
       where k.tenant_id = ${tenantOf('new', values)} and k.kind = new.kind and k.key = new.key`,
      values,
    );
  });
}

/** Deletes up to `rowsMax` ids that expired by `expiredByMs`, and resolves with their number. */
export async function sweepEventKeys(db: Queryable, expiredByMs: number, rowsMax: number): Promise<number> {
  const expiredBy = new Date(expiredByMs);
  const { rows } = await db.query<EventKeyId & { kind: Kind }>(
    'select tenant_id as "tenantId", kind, key from event_keys where expires_at <= $1 limit $2',
    [expiredBy, rowsMax],
  );
  const deleted = await byTenant(db, rows, async (tenantId, ofTenant) => {
    const result = await db.query(
      `delete from event_keys
        where tenant_id = $1 and (kind, key) in (
          select k.kind, k.key
            from unnest($2::text[], $3::text[]) as wanted (kind, key)
            join event_keys k on k.tenant_id = $1 and k.kind = wanted.kind and k.key = wanted.key
           where k.expires_at <= $4
             for update of k skip locked
        )`,
      [tenantId, ofTenant.map(({ kind }) => kind), ofTenant.map(({ key }) => key), expiredBy],
    );
    return [result.rowCount ?? 0];
  });
  return deleted.reduce((sum, count) => sum + count, 0);
}

/** A row of an id, with the last conflict in separate columns. */
interface LockedKey extends Omit<EventKey, 'tenantId' | 'lastConflict'> {
  readonly conflictHash: string | null;
  readonly conflictAtMs: number | null;
  readonly conflictGeneration: number | null;
  readonly conflictPartition: number | null;
  readonly conflictOffset: bigint | null;
}

function toEventKey(tenantId: string, row: LockedKey): EventKey {
  const { conflictHash, conflictAtMs, conflictGeneration, conflictPartition, conflictOffset, ...key } = row;
  const lastConflict =
    conflictAtMs === null
      ? null
      : {
          contentHash: conflictHash,
          atMs: conflictAtMs,
          generation: conflictGeneration!,
          partition: conflictPartition!,
          offset: conflictOffset!,
        };
  return { tenantId, ...key, lastConflict };
}
