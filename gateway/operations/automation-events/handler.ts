import { readAutomationEvent } from '../../../shared/kinds/automation-events.ts';
import { batchOperation } from '../batch.ts';
import type { WriteDeps } from '../write.ts';

/** Handles `POST /automation-agent/v1/events`: accepts up to 1000 events of the automated agent. */
export function automationEventsOperation(deps: WriteDeps) {
  return batchOperation(deps, {
    kind: 'automation-events',
    idMember: 'eventId',
    readItem: readAutomationEvent,
    lookUpStored: true,
  });
}
