import { readAutomationEvent } from '../../../shared/kinds/automation-events.ts';
import { recordManyOperation } from '../record-many.ts';
import type { WriteDeps } from '../write.ts';

/** `POST /automation-agent/v1/events`: what the automated agent did, up to 1000 events. */
export function automationEventsOperation(deps: WriteDeps) {
  return recordManyOperation(deps, { kind: 'automation-events', readItem: readAutomationEvent });
}
