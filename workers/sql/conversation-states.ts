import type { AutomationState } from '../../shared/kinds/automation-events.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import { byTenant } from './by-tenant.ts';
import {
  assignExcluded,
  type EntityId,
  type EntityVersion,
  type LockedRow,
  positionColumns,
} from './entity-tables.ts';

/** The current state of an external conversation, as determined by its automation events. */
export interface ConversationState {
  readonly conversationId: string;
  /** The state; null while the conversation has only events that set no state. */
  readonly state: AutomationState | null;
  readonly lastAutomationAgentMessageId: string | null;
  readonly currentTaskName: string | null;
  /** JSON text, byte for byte as sent. */
  readonly inputVariables: string | null;
}

type Version = EntityVersion<ConversationState>;

/** A state, and when a worker last stored an event of the conversation. */
export type LockedVersion = Version & { readonly updatedAtMs: number };

/**
 * Locks the states of the external conversations (sorted) in that order, and resolves with those
 * that exist.
 */
export async function lockConversationStates(
  db: Queryable,
  ids: readonly EntityId[],
): Promise<LockedVersion[]> {
  return await byTenant(db, ids, (tenantId, ofTenant) =>
    lockOfTenant(
      db,
      tenantId,
      ofTenant.map(({ entity }) => entity),
    ),
  );
}

async function lockOfTenant(
  db: Queryable,
  tenantId: string,
  entities: readonly string[],
): Promise<LockedVersion[]> {
  const { rows } = await db.query<StateRow>(
    `select s.external_conversation_id as entity, s.conversation_id as "conversationId", s.state,
            s.last_automation_agent_message_id as "lastAutomationAgentMessageId",
            s.current_task_name as "currentTaskName", s.input_variables as "inputVariables",
            s.generation, s."offset", s.read_generation as "readGeneration", s.read_partition as "readPartition",
            s.read_offset as "readOffset", ${epochMs('s.updated_at')} as "updatedAtMs"
       from unnest($2::text[]) with ordinality as wanted (entity, place)
       join conversation_states s on s.tenant_id = $1 and s.external_conversation_id = wanted.entity
      order by wanted.place
        for update of s`,
    [tenantId, entities],
  );
  return rows.map(
    ({ entity, generation, offset, readGeneration, readPartition, readOffset, updatedAtMs, ...state }) => ({
      tenantId,
      entity,
      state,
      newest: { generation, offset },
      lastRead: { generation: readGeneration, partition: readPartition, offset: readOffset },
      updatedAtMs,
    }),
  );
}

interface StateRow extends ConversationState, LockedRow {
  readonly updatedAtMs: number;
}

/**
 * Writes states (distinct, sorted): new states, and states locked by {@link
 * lockConversationStates}.
 */
export async function upsertConversationStates(
  db: Queryable,
  versions: readonly Version[],
  nowMs: number,
): Promise<void> {
  const valueColumns: Column<Version>[] = [
    { name: 'conversation_id', type: 'text', value: ({ state }) => state.conversationId },
    { name: 'state', type: 'text', value: ({ state }) => state.state },
    {
      name: 'last_automation_agent_message_id',
      type: 'text',
      value: ({ state }) => state.lastAutomationAgentMessageId,
    },
    { name: 'current_task_name', type: 'text', value: ({ state }) => state.currentTaskName },
    { name: 'input_variables', type: 'text', value: ({ state }) => state.inputVariables },
    ...positionColumns<Version>(nowMs),
  ];
  await insertRows(
    withoutAnswer(db),
    'conversation_states',
    [
      { name: 'tenant_id', type: 'text', value: (version) => version.tenantId },
      { name: 'external_conversation_id', type: 'text', value: (version) => version.entity },
      ...valueColumns,
    ],
    versions,
    `on conflict (tenant_id, external_conversation_id) do update set ${assignExcluded(valueColumns)}`,
  );
}
