import type { Kind } from '../../shared/contracts/kinds.ts';
import type { Pool } from '../../shared/postgres/pool.ts';

/** A row that a worker stored for a record. */
export interface StoredRecord {
  readonly kind: Kind;
  readonly tenantId: string;
  readonly id: string;
  readonly marker: string;
  readonly entity: string;
  readonly generation: number;
  readonly offset: bigint;
  /** Seconds from the record's acceptance until it was stored. */
  readonly delaySeconds: number;
}

/** Table and columns of each kind's stored records: id, marker, entity. */
const TABLES: Readonly<Record<Kind, readonly [table: string, id: string, marker: string, entity: string]>> = {
  'agent-metadata': ['agent_records', 'event_id', "patch->>'agentName'", 'external_agent_id'],
  'conversation-metadata': [
    'conversation_records',
    'event_id',
    "patch->>'lobName'",
    'external_conversation_id',
  ],
  credentials: ['credentials', 'event_id', 'customer_external_id', 'conversation_id'],
  'message-sent': ['message_sent', 'message_id', 'message_id', 'conversation_id'],
  'automation-events': ['automation_events', 'event_id', 'current_task_name', 'external_conversation_id'],
};

/** Resolves with all stored records whose marker starts with the prefix. */
export async function readStored(pool: Pool, prefix: string): Promise<StoredRecord[]> {
  const stored: StoredRecord[] = [];
  for (const [kind, [table, id, marker, entity]] of Object.entries(TABLES) as [
    Kind,
    (typeof TABLES)[Kind],
  ][]) {
    const { rows } = await pool.query<Omit<StoredRecord, 'kind' | 'offset'> & { offset: string }>(
      `select tenant_id as "tenantId", ${id} as id, ${marker} as marker, ${entity} as entity, generation,
              "offset"::text, extract(epoch from stored_at - accepted_at)::float8 as "delaySeconds"
       from ${table} where starts_with(${marker}, $1)`,
      [`${prefix}-`],
    );
    for (const row of rows) stored.push({ kind, ...row, offset: BigInt(row.offset) });
  }
  return stored;
}

/** Resolves with the markers in the current rows of entities, by `kind tenant entity`. */
export async function readCurrent(pool: Pool, prefix: string): Promise<Map<string, string>> {
  const current = new Map<string, string>();
  const read = async (kind: Kind, table: string, entity: string, marker: string) => {
    const { rows } = await pool.query<{ tenantId: string; entity: string; marker: string }>(
      `select tenant_id as "tenantId", ${entity} as entity, ${marker} as marker
       from ${table} where starts_with(${marker}, $1)`,
      [`${prefix}-`],
    );
    for (const row of rows) current.set(`${kind} ${row.tenantId} ${row.entity}`, row.marker);
  };
  await read('agent-metadata', 'agents', 'external_agent_id', 'agent_name');
  await read('conversation-metadata', 'conversations', 'external_conversation_id', 'lob_name');
  await read('automation-events', 'conversation_states', 'external_conversation_id', 'current_task_name');
  return current;
}

/**
 * Resolves with each kind's numbers of stored ids and of rows, which differ if a record was counted
 * twice.
 */
export async function readCounts(pool: Pool): Promise<{ kind: Kind; keys: number; rows: number }[]> {
  const counts = [];
  for (const [kind, [table]] of Object.entries(TABLES) as [Kind, (typeof TABLES)[Kind]][]) {
    const { rows } = await pool.query<{ keys: number; rows: number }>(
      `select (select count(*)::int from event_keys where kind = $1 and status = 'stored') as keys,
              (select count(*)::int from ${table}) as rows`,
      [kind],
    );
    counts.push({ kind, ...rows[0]! });
  }
  return counts;
}
