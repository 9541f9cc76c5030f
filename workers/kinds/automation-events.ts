import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import { type JsonObject, RawJson } from '../../shared/contracts/json.ts';
import type { WebhookType } from '../../shared/contracts/webhooks.ts';
import { AUTOMATION_EVENT_TYPES, type AutomationEventType } from '../../shared/kinds/automation-events.ts';
import {
  type AutomationEventRow,
  insertAutomationEvents,
  readAutomationEvents,
} from '../sql/automation-events.ts';
import { addConversationIdPairs, type ConversationIdPair } from '../sql/conversation-id-pairs.ts';
import {
  type ConversationState,
  type LockedVersion,
  lockConversationStates,
  upsertConversationStates,
} from '../sql/conversation-states.ts';
import { type EntityId, type EntityVersion, entityKey } from '../sql/entity-tables.ts';
import { lateReadOf } from '../sql/read-positions.ts';
import type { WebhookEvent } from '../sql/webhook-events.ts';
import { applyAutomationEvent } from './automation-state.ts';
import { foldRecords } from './fold.ts';
import { objectMember, rawMember, requiredText, textMember, timestampMember } from './members.ts';
import { DataError, type ReadRecord, type RecordKind, sortedByEntity } from './record-kind.ts';

const WEBHOOK_TYPES: Readonly<Record<AutomationEventType, WebhookType>> = {
  processingStart: 'automation.processing_started',
  reply: 'automation.reply',
  processingEnd: 'automation.processing_ended',
  confirmationRequired: 'automation.confirmation_required',
  authenticationRequired: 'automation.authentication_required',
  transferToAgent: 'automation.transferred_to_agent',
  transferToSystem: 'automation.transferred_to_system',
};

/**
 * The kind of actions of the automated agent: every event is stored, sent to webhooks, and changes
 * the conversation's state.
 */
export const automationEvents: RecordKind<SentEvent> = {
  kind: 'automation-events',
  timePartitioned: ['automation_events'],
  read: readEvent,
  erase: (record, isErased) => (isErased('conversation', record.event.entity) ? undefined : record),
  async write(db, records, { nowMs, erasedAtMs }) {
    await insertAutomationEvents(db, sortedByEntity(records).map(toPlaced), nowMs);
    let before: LockedVersion[] = [];
    const versions = await foldRecords(records, {
      apply: applyAutomationEvent,
      lock: async (ids) => {
        before = await lockConversationStates(db, ids);
        return before;
      },
      history: (ids) => readAutomationEvents(db, ids),
      changeOf: ({ event }) => event,
      erasedAtOf: (id) => erasedAtMs('conversation', id),
    });
    // A state from before an erasure may not be deleted yet.
    const known = before.filter(
      ({ tenantId, entity }) => erasedAtMs('conversation', { tenantId, entity }) === undefined,
    );
    await addConversationIdPairs(db, earlierPairs(records, known, versions));
    await upsertConversationStates(db, versions, nowMs);
    return records.map(toWebhookEvent);
  },
};

type Version = EntityVersion<ConversationState>;

/**
 * Returns the pairs of ids in events and in previous states that the new states do not have. There
 * are none, unless a conversation's id has changed.
 */
function earlierPairs(
  records: readonly ReadRecord<AutomationEventRow>[],
  before: readonly LockedVersion[],
  after: readonly Version[],
): ConversationIdPair[] {
  const current = new Map(after.map((version) => [entityKey(version), version.state.conversationId]));
  const earlier = new Map<string, ConversationIdPair>();
  const add = (entity: EntityId, conversationId: string, reportedAtMs: number) => {
    if (current.get(entityKey(entity)) === conversationId) return;
    const key = `${entityKey(entity)}\0${conversationId}`;
    if ((earlier.get(key)?.reportedAtMs ?? 0) >= reportedAtMs) return;
    const { tenantId, entity: externalConversationId } = entity;
    earlier.set(key, { tenantId, conversationId, externalConversationId, reportedAtMs });
  };
  for (const version of before) add(version, version.state.conversationId, version.updatedAtMs);
  for (const { event, row } of records) add(event, row.conversationId, event.acceptedAtMs);
  return [...earlier.values()];
}

interface SentEvent extends AutomationEventRow {
  readonly transferToSystem: JsonObject | undefined;
}

function readEvent({ id, data }: AcceptedRecord): SentEvent {
  const type = requiredText(data, 'type');
  if (!isEventType(type)) throw new DataError('type is unknown');
  const occurredAtNs = timestampMember(data, 'occurredAt');
  if (occurredAtNs === undefined) throw new DataError('occurredAt is missing');
  const reply = objectMember(data, 'reply');
  if (type === 'reply' && !reply) throw new DataError('reply is missing');
  const transferToSystem = objectMember(data, 'transferToSystem');
  const transfer = transferToSystem ?? {};
  return {
    eventId: id,
    conversationId: requiredText(data, 'conversationId'),
    type,
    occurredAtNs,
    currentTaskName: textMember(data, 'currentTaskName') ?? null,
    inputVariables: rawMember(data, 'inputVariables') ?? null,
    replyMessageId: reply ? requiredText(reply, 'messageId') : null,
    replyText: reply ? requiredText(reply, 'text') : null,
    transferReferenceVariables: rawMember(transfer, 'referenceVariables') ?? null,
    transferVariables: rawMember(transfer, 'transferVariables') ?? null,
    transferTaskName: textMember(transfer, 'currentTaskName') ?? null,
    transferToSystem,
  };
}

function isEventType(type: string): type is AutomationEventType {
  return (AUTOMATION_EVENT_TYPES as readonly string[]).includes(type);
}

function toPlaced(record: ReadRecord<AutomationEventRow>) {
  const { event, row, firstPosition } = record;
  return {
    tenantId: event.tenantId,
    entity: event.entity,
    event: row,
    acceptedAtMs: event.acceptedAtMs,
    ...firstPosition,
    lateRead: lateReadOf(record),
    requestId: event.requestId,
  };
}

function toWebhookEvent({ event, row }: ReadRecord<SentEvent>): WebhookEvent {
  return {
    tenantId: event.tenantId,
    type: WEBHOOK_TYPES[row.type as AutomationEventType],
    orderingKey: event.entity,
    timestampMs: Number(row.occurredAtNs / 1_000_000n),
    traceparent: event.traceparent,
    data: {
      automationAgentMessageId: event.id,
      conversationId: row.conversationId,
      externalConversationId: event.entity,
      reply: row.replyText === null ? undefined : replyOf(row),
      transferToSystem: row.transferToSystem,
      currentTaskName: row.currentTaskName ?? undefined,
      inputVariables: row.inputVariables === null ? undefined : new RawJson(row.inputVariables),
    },
  };
}

function replyOf(row: AutomationEventRow): JsonObject {
  return { messageId: row.replyMessageId, text: row.replyText };
}
