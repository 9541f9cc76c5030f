import type { AutomationState } from '../../shared/kinds/automation-events.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { type Column, insertRows } from '../../shared/postgres/unnest.ts';
import { assignExcluded, type EntityId, type EntityVersion, versionColumns } from './entity-tables.ts';

/** The state that an external conversation's automation events result in. */
export interface ConversationState {
  readonly conversationId: string;
  /** Null while only events that set no state were seen. */
  readonly state: AutomationState | null;
  readonly lastAutomationAgentMessageId: string | null;
  readonly currentTaskName: string | null;
  /** JSON text, byte for byte as it was sent. */
  readonly inputVariables: string | null;
}

type Version = EntityVersion<ConversationState>;

/**
 * Resolves with the states of the external conversations (sorted) that have one, locked in that
 * order.
 */
export async function lockConversationStates(db: Queryable, ids: readonly EntityId[]): Promise<Version[]> {
  const { rows } = await db.query<StateRow>(
    `select s.tenant_id, s.external_conversation_id, s.conversation_id, s.state, s.last_automation_agent_message_id,
            s.current_task_name, s.input_variables, s.generation, s."offset", s.read_generation, s.read_partition,
            s.read_offset
     from unnest($1::text[], $2::text[]) with ordinality as wanted (tenant_id, entity, place)
     join conversation_states s
       on s.tenant_id = wanted.tenant_id and s.external_conversation_id = wanted.entity
     order by wanted.place
     for update of s`,
    [ids.map((id) => id.tenantId), ids.map((id) => id.entity)],
  );
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    entity: row.external_conversation_id,
    state: {
      conversationId: row.conversation_id,
      state: row.state,
      lastAutomationAgentMessageId: row.last_automation_agent_message_id,
      currentTaskName: row.current_task_name,
      inputVariables: row.input_variables,
    },
    newest: { generation: row.generation, offset: row.offset },
    lastRead: { generation: row.read_generation, partition: row.read_partition, offset: row.read_offset },
  }));
}

interface StateRow {
  readonly tenant_id: string;
  readonly external_conversation_id: string;
  readonly conversation_id: string;
  readonly state: AutomationState | null;
  readonly last_automation_agent_message_id: string | null;
  readonly current_task_name: string | null;
  readonly input_variables: string | null;
  readonly generation: number;
  readonly offset: bigint;
  readonly read_generation: number;
  readonly read_partition: number;
  readonly read_offset: bigint;
}

/**
 * Writes states (distinct, sorted): new ones, and those locked by {@link lockConversationStates}.
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
    ...versionColumns<ConversationState>(nowMs),
  ];
  const { text, values } = insertRows(
    'conversation_states',
    [
      { name: 'tenant_id', type: 'text', value: (version) => version.tenantId },
      { name: 'external_conversation_id', type: 'text', value: (version) => version.entity },
      ...valueColumns,
    ],
    versions,
    `on conflict (tenant_id, external_conversation_id) do update set ${assignExcluded(valueColumns)}`,
  );
  await db.query(text, values);
}
