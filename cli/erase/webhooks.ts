import type { JsonObject } from '../../shared/contracts/json.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { isOfErased } from '../../shared/postgres/erased-members.ts';
import { type ErasureScope, isErasedIn } from './scope.ts';

/** A record whose rejection a webhook can report. */
export interface RejectedRecord {
  readonly kind: Kind;
  readonly recordId: string;
}

/** Returns whether a webhook is one of an erased person or conversation, or reports one of the records. */
export function isWebhookOfErased(
  scope: ErasureScope,
  rejected: readonly RejectedRecord[],
): (webhook: { readonly body: Buffer }) => boolean {
  const isErased = isErasedIn(scope);
  // Kinds contain no space.
  const records = new Set(rejected.map(({ kind, recordId }) => `${kind} ${recordId}`));
  return ({ body }) => {
    const { type, data } = JSON.parse(String(body)) as { readonly type: string; readonly data: JsonObject };
    if (type === 'ingestion.record_rejected') return records.has(`${data.kind} ${data.eventId}`);
    if (type === 'conversation.credentials_stored') return isOfErased('credentials', data, isErased);
    return type.startsWith('automation.') && isOfErased('automation-events', data, isErased);
  };
}
