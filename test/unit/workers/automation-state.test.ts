import { describe, expect, it } from 'vitest';
import { applyAutomationEvent } from '../../../workers/kinds/automation-state.ts';
import type { AutomationEventRow } from '../../../workers/sql/automation-events.ts';
import type { ConversationState } from '../../../workers/sql/conversation-states.ts';

let count = 0;
function event(type: string, more: Partial<AutomationEventRow> = {}): AutomationEventRow {
  return {
    eventId: `event-${++count}`,
    conversationId: 'C',
    type,
    occurredAtNs: 0n,
    currentTaskName: null,
    inputVariables: null,
    replyMessageId: null,
    replyText: null,
    transferReferenceVariables: null,
    transferVariables: null,
    transferTaskName: null,
    ...more,
  };
}

function stateOf(...events: AutomationEventRow[]): ConversationState {
  let state: ConversationState | undefined;
  for (const next of events) state = applyAutomationEvent(state, next);
  return state!;
}

const stateAfter = (...types: string[]) => stateOf(...types.map((type) => event(type))).state;

describe('the state of a conversation', () => {
  it.each([
    ['processingStart', 'processing'],
    ['authenticationRequired', 'waitingForAuth'],
    ['confirmationRequired', 'waitingForConfirmation'],
    ['transferToAgent', 'transferredToAgent'],
    ['transferToSystem', 'transferredToSystem'],
    ['processingEnd', 'ready'],
  ])('after %s is %s', (type, state) => {
    expect(stateAfter(type)).toBe(state);
    expect(stateAfter('transferToAgent', 'processingStart', type)).toBe(state);
  });

  it.each(['authenticationRequired', 'confirmationRequired', 'transferToAgent', 'transferToSystem'])(
    'stays after the end of processing when %s came since its start',
    (type) => {
      const reached = stateAfter(type);
      expect(stateAfter('processingStart', type, 'reply', 'processingEnd', 'processingEnd')).toBe(reached);
      expect(stateAfter('processingStart', type, 'processingStart', 'processingEnd')).toBe('ready');
    },
  );

  it('is undefined while only replies came', () => {
    expect(stateOf(event('reply', { eventId: 'R' }))).toMatchObject({
      state: null,
      lastAutomationAgentMessageId: 'R',
    });
  });

  it('keeps the last reply, task, variables and conversation', () => {
    expect(
      stateOf(
        event('processingStart', { currentTaskName: 'first', inputVariables: '{"a":1}' }),
        event('reply', { eventId: 'R', conversationId: 'D' }),
        event('transferToSystem', { currentTaskName: 'outer', transferTaskName: 'inner' }),
        event('processingEnd', { inputVariables: '{}' }),
      ),
    ).toEqual({
      conversationId: 'C',
      state: 'transferredToSystem',
      lastAutomationAgentMessageId: 'R',
      currentTaskName: 'inner',
      inputVariables: '{}',
    });
  });
});
