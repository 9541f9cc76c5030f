import type { Kind } from '../../shared/contracts/kinds.ts';
import { epochMs, toMs } from '../../shared/postgres/epoch-ms.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { type Column, insertRows, unnestRows } from '../../shared/postgres/unnest.ts';

/** The result of a record, by its id. */
export interface EventKey {
  readonly tenantId: string;
  readonly key: string;
  /** SHA-256 in hex; null for kinds without content hashes. */
  readonly contentHash: string | null;
  readonly status: 'stored' | 'dead-lettered';
  /** Number of records with the same id and other content. */
  readonly conflicts: number;
  /** The latest of them. */
  readonly lastConflict: Conflict | null;
  /** Why it is a dead letter, without any value of the record. */
  readonly error: string | null;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
  readonly acceptedAtMs: number;
  readonly storedAtMs: number;
  readonly updatedAtMs: number;
  readonly expiresAtMs: number;
}

/** A record with other content under a stored id. Its position identifies its dead letter. */
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
  { name: 'content_hash', type: 'bytea', value: (key) => hashBytes(key.contentHash) },
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

/** Columns that only ids with a conflict have: new ids are inserted without them. */
const CONFLICT_COLUMNS: readonly Column<EventKey>[] = [
  { name: 'conflict_hash', type: 'bytea', value: (key) => hashBytes(key.lastConflict?.contentHash ?? null) },
  { name: 'conflict_at', type: 'timestamptz', value: (key) => key.lastConflict?.atMs },
  { name: 'conflict_generation', type: 'integer', value: (key) => key.lastConflict?.generation },
  { name: 'conflict_partition', type: 'integer', value: (key) => key.lastConflict?.partition },
  { name: 'conflict_offset', type: 'bigint', value: (key) => key.lastConflict?.offset },
];

function columnsOf(kind: Kind): Column<EventKey>[] {
  return [
    { name: 'tenant_id', type: 'text', value: (key) => key.tenantId },
    { name: 'kind', type: 'text', value: () => kind },
    { name: 'key', type: 'text', value: (key) => key.key },
    ...DATA_COLUMNS,
  ];
}

/**
 * Inserts the ids (distinct, sorted) that do not exist yet, and resolves with those. Waits for
 * concurrent inserts of the same.
 */
export async function insertEventKeys(
  db: Queryable,
  kind: Kind,
  keys: readonly EventKey[],
): Promise<EventKeyId[]> {
  if (keys.length === 0) return [];
  const { text, values } = insertRows(
    'event_keys',
    columnsOf(kind),
    keys,
    'on conflict (tenant_id, kind, key) do nothing returning tenant_id as "tenantId", key',
  );
  return (await db.query<EventKeyId & { tenantId: string }>(text, values)).rows;
}

/**
 * Resolves with the stored ids (distinct, sorted), locked in that order until the transaction ends.
 */
export async function lockEventKeys(
  db: Queryable,
  kind: Kind,
  ids: readonly EventKeyId[],
): Promise<EventKey[]> {
  if (ids.length === 0) return [];
  const { rows } = await db.query<StoredKey>(
    `select k.tenant_id, k.key, k.content_hash, k.status, k.conflicts, k.error, k.generation, k.partition, k."offset",
            ${epochMs('k.accepted_at')} as accepted_at_ms, ${epochMs('k.stored_at')} as stored_at_ms,
            ${epochMs('k.updated_at')} as updated_at_ms, ${epochMs('k.expires_at')} as expires_at_ms,
            k.conflict_hash, ${epochMs('k.conflict_at')} as conflict_at_ms, k.conflict_generation, k.conflict_partition, k.conflict_offset
     from unnest($2::text[], $3::text[]) with ordinality as wanted (tenant_id, key, place)
     join event_keys k on k.tenant_id = wanted.tenant_id and k.kind = $1 and k.key = wanted.key
     order by wanted.place
     for update of k`,
    [kind, ids.map((id) => id.tenantId), ids.map((id) => id.key)],
  );
  return rows.map(toEventKey);
}

/** Replaces ids that are locked by {@link lockEventKeys} or this transaction's insert. */
export async function updateEventKeys(db: Queryable, kind: Kind, keys: readonly EventKey[]): Promise<void> {
  if (keys.length === 0) return;
  const { select, values } = unnestRows([...columnsOf(kind), ...CONFLICT_COLUMNS], keys);
  const assignments = [...DATA_COLUMNS, ...CONFLICT_COLUMNS]
    .map(({ name }) => `"${name}" = new."${name}"`)
    .join(', ');
  await db.query(
    `update event_keys k set ${assignments} from (${select}) as new
     where k.tenant_id = new.tenant_id and k.kind = new.kind and k.key = new.key`,
    values,
  );
}

/** Deletes up to `rowsMax` ids that had expired by then, and resolves with their number. */
export async function sweepEventKeys(db: Queryable, expiredByMs: number, rowsMax: number): Promise<number> {
  const result = await db.query(
    `delete from event_keys where (tenant_id, kind, key) in (
       select tenant_id, kind, key from event_keys where expires_at <= $1 limit $2 for update skip locked
     )`,
    [new Date(expiredByMs).toISOString(), rowsMax],
  );
  return result.rowCount ?? 0;
}

interface StoredKey {
  readonly tenant_id: string;
  readonly key: string;
  readonly content_hash: Buffer | null;
  readonly status: EventKey['status'];
  readonly conflicts: number;
  readonly error: string | null;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
  readonly accepted_at_ms: bigint;
  readonly stored_at_ms: bigint;
  readonly updated_at_ms: bigint;
  readonly expires_at_ms: bigint;
  readonly conflict_hash: Buffer | null;
  readonly conflict_at_ms: bigint | null;
  readonly conflict_generation: number | null;
  readonly conflict_partition: number | null;
  readonly conflict_offset: bigint | null;
}

function toEventKey(row: StoredKey): EventKey {
  return {
    tenantId: row.tenant_id,
    key: row.key,
    contentHash: row.content_hash?.toString('hex') ?? null,
    status: row.status,
    conflicts: row.conflicts,
    lastConflict:
      row.conflict_at_ms === null
        ? null
        : {
            contentHash: row.conflict_hash?.toString('hex') ?? null,
            atMs: toMs(row.conflict_at_ms),
            generation: row.conflict_generation!,
            partition: row.conflict_partition!,
            offset: row.conflict_offset!,
          },
    error: row.error,
    generation: row.generation,
    partition: row.partition,
    offset: row.offset,
    acceptedAtMs: toMs(row.accepted_at_ms),
    storedAtMs: toMs(row.stored_at_ms),
    updatedAtMs: toMs(row.updated_at_ms),
    expiresAtMs: toMs(row.expires_at_ms),
  };
}

function hashBytes(hex: string | null): Buffer | null {
  return hex === null ? null : Buffer.from(hex, 'hex');
}
