import type { AutomationEventType, AutomationState } from '../../shared/kinds/automation-events.ts';
import type { AutomationEventRow } from '../sql/automation-events.ts';
import type { ConversationState } from '../sql/conversation-states.ts';

/** The state after each type of event; `reply` and `processingEnd` depend on more than the type. */
const NEXT_STATE: Readonly<Partial<Record<string, AutomationState>>> = {
  processingStart: 'processing',
  authenticationRequired: 'waitingForAuth',
  confirmationRequired: 'waitingForConfirmation',
  transferToAgent: 'transferredToAgent',
  transferToSystem: 'transferredToSystem',
} satisfies Partial<Record<AutomationEventType, AutomationState>>;

/**
 * States that the end of processing does not change: the conversation waits for a person, or was
 * transferred to one or to a system.
 */
const KEPT_AT_END: ReadonlySet<AutomationState | null> = new Set([
  'waitingForAuth',
  'waitingForConfirmation',
  'transferredToAgent',
  'transferredToSystem',
]);

/**
 * Returns the state of an external conversation after an event. Must be called in the log's order.
 */
export function applyAutomationEvent(
  before: ConversationState | undefined,
  event: AutomationEventRow,
): ConversationState {
  return {
    conversationId: event.conversationId,
    state: nextState(before?.state ?? null, event.type),
    lastAutomationAgentMessageId:
      event.type === 'reply' ? event.eventId : (before?.lastAutomationAgentMessageId ?? null),
    currentTaskName: event.transferTaskName ?? event.currentTaskName ?? before?.currentTaskName ?? null,
    inputVariables: event.inputVariables ?? before?.inputVariables ?? null,
  };
}

function nextState(before: AutomationState | null, type: string): AutomationState | null {
  if (type === 'processingEnd') return KEPT_AT_END.has(before) ? before : 'ready';
  return NEXT_STATE[type] ?? before;
}
