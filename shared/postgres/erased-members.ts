import { readEnvelope } from '../contracts/event.ts';
import { isJsonObject, type JsonObject, type JsonValue, writeJson } from '../contracts/json.ts';
import type { Kind } from '../contracts/kinds.ts';
import type { ErasedSubject } from './erased-ids.ts';

/** Returns whether an id in a record was erased after the record was accepted. */
export type IsErased = (subject: ErasedSubject, id: string) => boolean;

/** The members that say whose record it is. A record is erased as a whole only because of these. */
const OWNERS: Readonly<Record<Kind, Readonly<Record<string, ErasedSubject>>>> = {
  'agent-metadata': { externalAgentId: 'agent' },
  'conversation-metadata': { externalConversationId: 'conversation' },
  'automation-events': { externalConversationId: 'conversation' },
  credentials: { conversationId: 'conversation-id', customerExternalId: 'customer' },
  'message-sent': { conversationId: 'conversation-id', externalConversationId: 'conversation' },
};

/** What the entity of a record is. */
const ENTITIES: Readonly<Record<Kind, ErasedSubject>> = {
  'agent-metadata': 'agent',
  'conversation-metadata': 'conversation',
  'automation-events': 'conversation',
  credentials: 'conversation-id',
  'message-sent': 'conversation-id',
};

/** Returns whether data, of a record or of its webhook, belongs to an erased person or conversation. */
export function isOfErased(kind: Kind, data: JsonObject, isErased: IsErased): boolean {
  return Object.entries(OWNERS[kind]).some(([member, subject]) => {
    const id = data[member];
    return typeof id === 'string' && isErased(subject, id);
  });
}

/**
 * Returns data of another record without erased persons; the same if it names none. Free-form objects
 * are not searched.
 */
export function withoutErasedMembers(kind: Kind, data: JsonObject, isErased: IsErased): JsonObject {
  if (kind === 'agent-metadata') return withoutErasedSupervisor(data, isErased);
  if (kind === 'conversation-metadata') return withoutErasedCustomer(data, isErased);
  return data;
}

/**
 * Clears the supervisor, instead of leaving it out: the agent would otherwise have its previous
 * supervisor again.
 */
function withoutErasedSupervisor(data: JsonObject, isErased: IsErased): JsonObject {
  const { supervisorId } = data;
  if (typeof supervisorId !== 'string' || !isErased('agent', supervisorId)) return data;
  return { ...data, supervisorId: null, supervisorName: null };
}

function withoutErasedCustomer(data: JsonObject, isErased: IsErased): JsonObject {
  const { attributes } = data;
  if (!Array.isArray(attributes)) return data;
  const others = attributes.filter((attribute) => !namesCustomer(attribute, isErased));
  return others.length === attributes.length ? data : { ...data, attributes: others };
}

function namesCustomer(attribute: JsonValue, isErased: IsErased): boolean {
  if (!isJsonObject(attribute)) return false;
  const { value } = attribute;
  return typeof value === 'string' && isErased('customer', value);
}

/** A record that was not stored, as the log or a dead letter has it. */
export interface EncodedRecord {
  readonly kind: Kind;
  /** Empty if it is not known. */
  readonly entity: string;
  /** Null: there is none, or it must not be read. */
  readonly value: Buffer | null;
}

/**
 * Returns the value without erased persons, the same if it names none, or undefined if the record belongs
 * to an erased person or conversation. Envelope and content hash are kept, so that copies of the record
 * are still recognised. A value that is not readable belongs to its entity.
 */
export function withoutErasedInValue(
  { kind, entity, value }: EncodedRecord,
  isErased: IsErased,
): { readonly value: Buffer | null } | undefined {
  const event = value ? envelopeOf(value) : undefined;
  const data = event?.data;
  // The entity of a message without a conversation is its own id.
  const hasEntity = kind !== 'message-sent' || !isJsonObject(data);
  if (hasEntity && isErased(ENTITIES[kind], entity)) return undefined;
  if (!event || !isJsonObject(data)) return { value };
  if (isOfErased(kind, data, isErased)) return undefined;
  const left = withoutErasedMembers(kind, data, isErased);
  return { value: left === data ? value : Buffer.from(writeJson({ ...event, data: left })) };
}

function envelopeOf(value: Buffer): JsonObject | undefined {
  try {
    return readEnvelope(value);
  } catch {
    return undefined;
  }
}
