import type { JsonObject } from '../../shared/contracts/json.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { isOfErased } from '../../shared/postgres/erased-members.ts';
import { type ErasureScope, isErasedIn } from './scope.ts';

interface WebhookBody {
  readonly type: string;
  readonly timestamp: string;
  readonly data: JsonObject;
}

/** A record whose rejection a webhook can report. */
export interface RejectedRecord {
  readonly kind: Kind;
  readonly recordId: string;
}

/** Returns whether the webhook of a record that was accepted up to the erasure must be deleted. */
export type IsWebhookErased = (
  webhook: { readonly body: Buffer },
  laterEvents: ReadonlySet<string>,
) => boolean;

/**
 * Returns whether a webhook is one of an erased person or conversation, or reports one of the records.
 * Events that were accepted after the erasure are given by their ids.
 */
export function isWebhookOfErased(scope: ErasureScope, rejected: readonly RejectedRecord[]): IsWebhookErased {
  const isErased = isErasedIn(scope);
  // Kinds contain no space.
  const records = new Set(rejected.map(({ kind, recordId }) => `${kind} ${recordId}`));
  return ({ body }, laterEvents) => {
    const { type, timestamp, data } = JSON.parse(String(body)) as WebhookBody;
    if (type === 'ingestion.record_rejected') return records.has(`${data.kind} ${data.eventId}`);
    if (type === 'conversation.credentials_stored') {
      // The time of acceptance.
      return Date.parse(timestamp) <= scope.erasedAtMs && isOfErased('credentials', data, isErased);
    }
    const isEvent = type.startsWith('automation.') && !laterEvents.has(String(data.automationAgentMessageId));
    return isEvent && isOfErased('automation-events', data, isErased);
  };
}
