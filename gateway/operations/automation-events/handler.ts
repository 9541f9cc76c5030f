import { readAutomationEvent } from '../../../shared/kinds/automation-events.ts';
import type { WriteDeps } from '../deps.ts';
import { recordManyOperation } from '../record-many.ts';

/** `POST /automation-agent/v1/events`: what the automated agent did, up to 1000 events. */
export function automationEventsOperation(deps: WriteDeps) {
  return recordManyOperation(deps, { kind: 'automation-events', readItem: readAutomationEvent });
}
