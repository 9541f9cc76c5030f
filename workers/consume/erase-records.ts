import { identityOf } from '../../shared/contracts/dead-letter.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/contracts/json.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { ErasedSubject } from '../../shared/postgres/erased-ids.ts';
import type { IsErased, RecordKind } from '../kinds/record-kind.ts';
import type { Candidate } from './decode.ts';
import type { ErasedIds } from './erased-ids.ts';

/** Candidates without what was erased. */
export interface Unerased<Row> {
  readonly candidates: readonly Candidate<Row>[];
  /** Candidates that are stored without what identifies a person. */
  readonly blanked: ReadonlySet<Candidate<Row>>;
}

const NONE: ReadonlySet<never> = new Set();

/**
 * Returns the candidates that may be stored: those that were accepted before an id in them was erased
 * are left out, or blanked if their kind keeps the counts of such records.
 */
export function withoutErased<Row>(
  kind: RecordKind<Row>,
  candidates: readonly Candidate<Row>[],
  erased: ErasedIds,
): Unerased<Row> {
  if (erased.isEmpty()) return { candidates, blanked: NONE };
  const blanked = new Set<Candidate<Row>>();
  const left = candidates.flatMap((candidate) => {
    const kept = eraseCandidate(kind, candidate, erased);
    if (kept !== undefined && kept !== candidate) blanked.add(kept);
    return kept ?? [];
  });
  return { candidates: left, blanked };
}

/** Returns the candidate, or a blanked one; undefined if it may not be stored. */
function eraseCandidate<Row>(
  kind: RecordKind<Row>,
  candidate: Candidate<Row>,
  erased: ErasedIds,
): Candidate<Row> | undefined {
  const { outcome } = candidate;
  if (!outcome.ok) return isRejectedErased(kind.kind, candidate, erased) ? undefined : candidate;
  const { tenantId, acceptedAtMs } = outcome.record.event;
  if (!erased.mayConcern(tenantId, acceptedAtMs)) return candidate;
  const isErased = isErasedAt(erased, tenantId, acceptedAtMs);
  if (isErased('tenant', tenantId)) return undefined;
  const record = kind.erase(outcome.record, isErased);
  if (record === outcome.record) return candidate;
  return record && { ...candidate, identity: record.event, outcome: { ok: true, record } };
}

function isErasedAt(erased: ErasedIds, tenantId: string, acceptedAtMs: number): IsErased {
  return (subject, id) => acceptedAtMs <= (erased.timeOf(tenantId, subject, id) ?? Number.NEGATIVE_INFINITY);
}

/** What the entity of a record is. */
const ENTITIES: Readonly<Record<Kind, ErasedSubject>> = {
  'agent-metadata': 'agent',
  'conversation-metadata': 'conversation',
  'automation-events': 'conversation',
  credentials: 'conversation-id',
  'message-sent': 'conversation-id',
};

/** Members of records that are ids of persons or conversations. */
const MEMBERS: Readonly<Record<string, ErasedSubject>> = {
  externalAgentId: 'agent',
  supervisorId: 'agent',
  externalConversationId: 'conversation',
  conversationId: 'conversation-id',
  customerExternalId: 'customer',
};

/** Returns whether a record that cannot be stored, and perhaps not be read, has an erased id. */
function isRejectedErased<Row>(kind: Kind, { log, unreadable }: Candidate<Row>, erased: ErasedIds): boolean {
  const { tenantId, entity, acceptedAtMs } = identityOf(unreadable ? null : log.value, log.key);
  const atMs = acceptedAtMs ?? log.timestampMs;
  if (!erased.mayConcern(tenantId, atMs)) return false;
  const isErased = isErasedAt(erased, tenantId, atMs);
  if (isErased('tenant', tenantId) || isErased(ENTITIES[kind], entity)) return true;
  const data = unreadable ? {} : dataOf(log.value);
  return Object.entries(MEMBERS).some(([member, subject]) => {
    const id = data[member];
    return typeof id === 'string' && isErased(subject, id);
  });
}

/** Returns the data of a record; an empty object if it has none. */
function dataOf(value: Buffer | null): JsonObject {
  try {
    const event = JSON.parse(String(value)) as JsonValue;
    return isJsonObject(event) && isJsonObject(event.data) ? event.data : {};
  } catch {
    return {};
  }
}
