import type { AutomationState } from '../../shared/kinds/automation-events.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/** The state of a conversation. A member is undefined if no automation event has set it. */
export interface StoredState {
  readonly state: AutomationState | undefined;
  readonly lastAutomationAgentMessageId: string | undefined;
  readonly currentTaskName: string | undefined;
  /** The text of a JSON object, exactly as it was sent. */
  readonly inputVariables: string | undefined;
}

type Row = { readonly [Member in keyof StoredState]: Exclude<StoredState[Member], undefined> | null };

/**
 * Returns the state of a tenant's conversation; undefined if no event named the conversation.
 * Rejects after `deadlineMs`.
 */
export async function readConversationState(
  pool: Pool,
  tenantId: string,
  externalConversationId: string,
  deadlineMs: number,
): Promise<StoredState | undefined> {
  const [row] = await queryWithDeadline<Row>(
    pool,
    deadlineMs,
    `select state, last_automation_agent_message_id as "lastAutomationAgentMessageId",
            current_task_name as "currentTaskName", input_variables as "inputVariables"
       from conversation_states
      where tenant_id = $1 and external_conversation_id = $2`,
    [tenantId, externalConversationId],
  );
  if (!row) return undefined;
  return {
    state: row.state ?? undefined,
    lastAutomationAgentMessageId: row.lastAutomationAgentMessageId ?? undefined,
    currentTaskName: row.currentTaskName ?? undefined,
    inputVariables: row.inputVariables ?? undefined,
  };
}
