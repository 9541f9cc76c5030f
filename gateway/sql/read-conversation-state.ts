import type { AutomationState } from '../../shared/kinds/automation-events.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/** A conversation that the automation reported about. Undefined: not reported yet. */
export interface StoredState {
  readonly state: AutomationState | undefined;
  readonly lastAutomationAgentMessageId: string | undefined;
  readonly currentTaskName: string | undefined;
  /** A JSON object, as it was sent. */
  readonly inputVariables: string | undefined;
}

interface Row {
  state: AutomationState | null;
  last_automation_agent_message_id: string | null;
  current_task_name: string | null;
  input_variables: string | null;
}

/** The state of a tenant's conversation, or undefined when no event named it. Rejects after `deadlineMs`. */
export async function readConversationState(
  pool: Pool,
  tenantId: string,
  externalConversationId: string,
  deadlineMs: number,
): Promise<StoredState | undefined> {
  const [row] = await queryWithDeadline<Row>(
    pool,
    deadlineMs,
    `select state, last_automation_agent_message_id, current_task_name, input_variables
       from conversation_states
      where tenant_id = $1 and external_conversation_id = $2`,
    [tenantId, externalConversationId],
  );
  if (!row) return undefined;
  return {
    state: row.state ?? undefined,
    lastAutomationAgentMessageId: row.last_automation_agent_message_id ?? undefined,
    currentTaskName: row.current_task_name ?? undefined,
    inputVariables: row.input_variables ?? undefined,
  };
}
