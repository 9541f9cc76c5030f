import { compareText } from '../../shared/compare-text.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { ReadRecord } from '../kinds/record-kind.ts';
import { type EventKey, insertEventKeys, lockEventKeys, updateEventKeys } from '../sql/event-keys.ts';
import type { Candidate, Identity, Rejection } from './decode.ts';

const DAY_MS = 86_400_000;
/** How long an id that a caller gave stays unique: what the log takes later is another record. */
const CALLERS_ID_KEPT_MS = 30 * DAY_MS;
/**
 * A day longer than dead letters are kept: for their ids, and for those of records that were made of them. A replay that
 * ended before its mark may be repeated as long as its dead letter is there.
 */
const DEAD_LETTER_KEPT_MS = 31 * DAY_MS;

/** What becomes of each candidate. Those that are in neither list are repeats of what is stored. */
export interface Verdicts<Row> {
  readonly stored: readonly ReadRecord<Row>[];
  readonly deadLetters: readonly DeadLetter<Row>[];
}

export interface DeadLetter<Row> {
  readonly candidate: Candidate<Row>;
  readonly rejection: Rejection;
}

export interface SettleContext {
  readonly kind: Kind;
  readonly nowMs: number;
  /** How long ids made by the gateway are kept: a little longer than the log can deliver them again. */
  readonly generatedIdKeptMs: number;
}

/**
 * Decides by the candidates' ids which are new, and writes that down, in the caller's transaction: the first one stored
 * under an id wins, the same content again is a repeat, other content a conflict; the id of a dead letter may be taken over.
 */
export async function settleKeys<Row>(
  db: Queryable,
  candidates: readonly Candidate<Row>[],
  context: SettleContext,
): Promise<Verdicts<Row>> {
  const wanted = firstOfEachKey(candidates, context);
  const ids = [...wanted.values()].sort(
    (a, b) => compareText(a.tenantId, b.tenantId) || compareText(a.key, b.key),
  );
  const inserted = new Set((await insertEventKeys(db, context.kind, ids)).map(keyText));
  // A statement of its own: in the inserting one, keys that came meanwhile would not be seen.
  const there = await lockEventKeys(
    db,
    context.kind,
    ids.filter((id) => !inserted.has(keyText(id))),
  );
  if (inserted.size + there.length < ids.length) {
    // The sweep deleted one between the two statements: it would be stored without a key, and once more when it is repeated.
    throw new AppError('KEYS_SWEPT', 'an id that was over was deleted meanwhile', { retryable: true });
  }
  const before = new Map(there.map((key) => [keyText(key), key]));
  const settled = decide(candidates, before, context);
  const changed = ids.flatMap((id) => {
    const now = settled.keys.get(keyText(id))!;
    const same = inserted.has(keyText(id)) ? sameKey(now, id) : now === before.get(keyText(id));
    return same ? [] : [now];
  });
  await updateEventKeys(db, context.kind, changed);
  return settled;
}

/** The decision alone: `there` holds the keys that existed before. Resolves into the keys as they should be now. */
export function decide<Row>(
  candidates: readonly Candidate<Row>[],
  there: ReadonlyMap<string, EventKey>,
  context: SettleContext,
): Verdicts<Row> & { readonly keys: ReadonlyMap<string, EventKey> } {
  const keys = new Map(there);
  const stored: ReadRecord<Row>[] = [];
  const deadLetters: DeadLetter<Row>[] = [];
  for (const candidate of candidates) {
    const { identity, outcome } = candidate;
    const name = identity && keyText({ tenantId: identity.tenantId, key: identity.id });
    const current = name === undefined ? undefined : keys.get(name);
    const taken = current?.status === 'stored' && isKnown(current, candidate, context) ? current : undefined;
    if (!outcome.ok) {
      deadLetters.push({ candidate, rejection: outcome.rejection });
      if (name !== undefined && !taken) keys.set(name, newKey(candidate, identity!, context, current));
    } else if (!taken) {
      stored.push(outcome.record);
      keys.set(name!, newKey(candidate, identity!, context, current));
    } else if (taken.contentHash !== identity!.contentHash) {
      if (isKnownConflict(taken, candidate)) continue;
      deadLetters.push({ candidate, rejection: CONFLICT });
      // A dead letter that is published again was counted before.
      if (candidate.replay === undefined) keys.set(name!, withConflict(taken, candidate, context.nowMs));
    }
  }
  return { stored, deadLetters, keys };
}

/**
 * Whether the id's time was not over when the log took the candidate: workers may be days behind, and what was accepted as a
 * repeat must not become new meanwhile. A log's clock that is wrong can only lengthen the time of an id.
 */
function isKnown<Row>(key: EventKey, { log }: Candidate<Row>, { nowMs }: SettleContext): boolean {
  return key.expiresAtMs > Math.min(log.timestampMs, nowMs);
}

const CONFLICT: Rejection = {
  reason: 'conflict',
  stage: 'store',
  text: 'other content is stored under the same id',
};

/** The losing content once more, sent again by its caller or written twice by the gateway: it is a dead letter already. */
function isKnownConflict<Row>({ lastConflict }: EventKey, { identity, replay }: Candidate<Row>): boolean {
  const contentHash = identity!.contentHash;
  return replay === undefined && contentHash !== null && lastConflict?.contentHash === contentHash;
}

function withConflict<Row>(key: EventKey, { identity, origin }: Candidate<Row>, nowMs: number): EventKey {
  return {
    ...key,
    conflicts: key.conflicts + 1,
    lastConflict: { contentHash: identity!.contentHash, atMs: nowMs, ...origin },
    updatedAtMs: nowMs,
  };
}

function firstOfEachKey<Row>(
  candidates: readonly Candidate<Row>[],
  context: SettleContext,
): Map<string, EventKey> {
  const first = new Map<string, EventKey>();
  for (const candidate of candidates) {
    if (!candidate.identity) continue;
    const key = newKey(candidate, candidate.identity, context, undefined);
    if (!first.has(keyText(key))) first.set(keyText(key), key);
  }
  return first;
}

function newKey<Row>(
  candidate: Candidate<Row>,
  identity: Identity,
  context: SettleContext,
  before: EventKey | undefined,
): EventKey {
  const { origin, outcome, replay } = candidate;
  const { nowMs } = context;
  const same = before !== undefined && isKnown(before, candidate, context) ? before : undefined;
  const keptAloneMs = identity.idGenerated ? context.generatedIdKeptMs : CALLERS_ID_KEPT_MS;
  const keptMs = !outcome.ok || replay !== undefined ? DEAD_LETTER_KEPT_MS : keptAloneMs;
  return {
    tenantId: identity.tenantId,
    key: identity.id,
    contentHash: identity.contentHash,
    status: outcome.ok ? 'stored' : 'dead-lettered',
    conflicts: same?.conflicts ?? 0,
    lastConflict: same?.lastConflict ?? null,
    error: outcome.ok ? null : `${outcome.rejection.reason}: ${outcome.rejection.text}`,
    ...origin,
    acceptedAtMs: identity.acceptedAtMs,
    storedAtMs: nowMs,
    updatedAtMs: nowMs,
    expiresAtMs: nowMs + keptMs,
  };
}

function sameKey(a: EventKey, b: EventKey): boolean {
  return a.status === b.status && a.conflicts === b.conflicts && a.offset === b.offset && a.error === b.error;
}

function keyText({ tenantId, key }: { readonly tenantId: string; readonly key: string }): string {
  return `${tenantId.length}:${tenantId}${key}`;
}
