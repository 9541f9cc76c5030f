import type { Kind } from '../../shared/contracts/kinds.ts';
import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { lockFolds } from '../../shared/postgres/retention/fold-history.ts';
import { deleteEventKeys } from './erase-event-keys.ts';

/** The tables of a kind whose records belong to entities. */
export interface EntityTablesToErase {
  readonly kind: Kind;
  readonly current: string;
  readonly history: string;
  readonly bases: string;
  readonly idColumn: string;
}

export const AGENTS: EntityTablesToErase = {
  kind: 'agent-metadata',
  current: 'agents',
  history: 'agent_records',
  bases: 'agent_bases',
  idColumn: 'external_agent_id',
};

export const CONVERSATIONS: EntityTablesToErase = {
  kind: 'conversation-metadata',
  current: 'conversations',
  history: 'conversation_records',
  bases: 'conversation_bases',
  idColumn: 'external_conversation_id',
};

export const STATES: EntityTablesToErase = {
  kind: 'automation-events',
  current: 'conversation_states',
  history: 'automation_events',
  bases: 'automation_event_bases',
  idColumn: 'external_conversation_id',
};

const ROWS_MAX = 1000;

/** Deletes records of an entity with their ids, at most 1000, and resolves with their number. */
export async function deleteHistory(
  pool: Pool,
  { kind, history, idColumn }: EntityTablesToErase,
  { tenantId, id, erasedAtMs }: EntityToErase,
): Promise<{ readonly records: number; readonly keys: number }> {
  return await inTransaction(pool, async (db) => {
    const { rows } = await db.query<{ eventId: string }>(
      `delete from ${history}
        where tenant_id = $1 and ${idColumn} = $2 and accepted_at <= $3
          and (accepted_at, generation, "offset") in (
            select accepted_at, generation, "offset" from ${history}
             where tenant_id = $1 and ${idColumn} = $2 and accepted_at <= $3
             limit $4
          )
       returning event_id as "eventId"`,
      [tenantId, id, new Date(erasedAtMs), ROWS_MAX],
    );
    const keys = await deleteEventKeys(
      db,
      tenantId,
      kind,
      rows.map(({ eventId }) => eventId),
    );
    return { records: rows.length, keys };
  });
}

export interface EntityToErase {
  readonly tenantId: string;
  readonly id: string;
  readonly erasedAtMs: number;
}

/** Deletes what dropped weeks left of an entity. Call it after its history is deleted. */
export async function deleteBases(
  pool: Pool,
  { bases, idColumn }: EntityTablesToErase,
  { tenantId, id, erasedAtMs }: EntityToErase,
): Promise<number> {
  return await inTransaction(pool, async (db) => {
    await lockFolds(db);
    const { rowCount } = await db.query(
      `delete from ${bases} where tenant_id = $1 and ${idColumn} = $2 and accepted_at <= $3`,
      [tenantId, id, new Date(erasedAtMs)],
    );
    return rowCount ?? 0;
  });
}

/**
 * Deletes the current row of an entity, unless later records exist: a worker that stores one makes the
 * row from these alone.
 */
export async function deleteCurrent(
  pool: Pool,
  { current, history, bases, idColumn }: EntityTablesToErase,
  { tenantId, id, erasedAtMs }: EntityToErase,
): Promise<number> {
  return await inTransaction(pool, async (db) => {
    const locked = await db.query(
      `select 1 from ${current} where tenant_id = $1 and ${idColumn} = $2 for update`,
      [tenantId, id],
    );
    if (locked.rowCount === 0) return 0;
    const { rows } = await db.query<{ has: boolean }>(
      `select exists (select 1 from ${history} where tenant_id = $1 and ${idColumn} = $2 and accepted_at > $3)
           or exists (select 1 from ${bases} where tenant_id = $1 and ${idColumn} = $2 and accepted_at > $3) as has`,
      [tenantId, id, new Date(erasedAtMs)],
    );
    if (rows[0]!.has) return 0;
    const { rowCount } = await db.query(`delete from ${current} where tenant_id = $1 and ${idColumn} = $2`, [
      tenantId,
      id,
    ]);
    return rowCount ?? 0;
  });
}
