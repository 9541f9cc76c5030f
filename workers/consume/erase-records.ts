import { identityOf } from '../../shared/contracts/dead-letter.ts';
import { type IsErased, withoutErasedInValue } from '../../shared/postgres/erased-members.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import type { Candidate } from './decode.ts';
import type { ErasedIds } from './erased-ids.ts';

/** Candidates without what was erased. */
export interface Unerased<Row> {
  readonly candidates: readonly Candidate<Row>[];
  /** Candidates that belong to an erased conversation, and are stored without what identifies it. */
  readonly blanked: ReadonlySet<Candidate<Row>>;
}

const NONE: ReadonlySet<never> = new Set();

/**
 * Returns the candidates that may be stored, of those that were accepted before an id in them was erased:
 * candidates of the erased person or conversation are left out, or blanked if their kind keeps the counts
 * of such records. Others are stored without the members that name a person, also as dead letters.
 */
export function withoutErased<Row>(
  kind: RecordKind<Row>,
  candidates: readonly Candidate<Row>[],
  erased: ErasedIds,
): Unerased<Row> {
  if (erased.isEmpty()) return { candidates, blanked: NONE };
  const blanked = new Set<Candidate<Row>>();
  const left = candidates.flatMap((candidate) => {
    const { isBlanked, kept } = eraseCandidate(kind, candidate, erased);
    if (kept && isBlanked) blanked.add(kept);
    return kept ?? [];
  });
  return { candidates: left, blanked };
}

interface Erased<Row> {
  /** Undefined: it may not be stored. */
  readonly kept: Candidate<Row> | undefined;
  readonly isBlanked?: boolean;
}

function eraseCandidate<Row>(
  { kind, erase }: RecordKind<Row>,
  candidate: Candidate<Row>,
  erased: ErasedIds,
): Erased<Row> {
  const { log, unreadable, outcome } = candidate;
  const value = unreadable ? null : log.value;
  const { tenantId, entity, acceptedAtMs } = outcome.ok ? outcome.record.event : identityOf(value, log.key);
  const atMs = acceptedAtMs ?? log.timestampMs;
  if (!erased.mayConcern(tenantId, atMs)) return { kept: candidate };
  const isErased = isErasedAt(erased, tenantId, atMs);
  if (isErased('tenant', tenantId)) return { kept: undefined };
  const record = outcome.ok ? erase(outcome.record, isErased) : undefined;
  if (outcome.ok && record === outcome.record) return { kept: candidate };
  const others = withoutErasedInValue({ kind, entity, value }, isErased);
  const left = others?.value ? { ...candidate, log: { ...log, value: others.value } } : candidate;
  if (!outcome.ok) return { kept: others && left };
  if (!record) return { kept: undefined };
  const kept = { ...left, identity: record.event, outcome: { ok: true, record } } as const;
  return { kept, isBlanked: others === undefined };
}

function isErasedAt(erased: ErasedIds, tenantId: string, acceptedAtMs: number): IsErased {
  return (subject, id) => acceptedAtMs <= (erased.timeOf(tenantId, subject, id) ?? Number.NEGATIVE_INFINITY);
}
