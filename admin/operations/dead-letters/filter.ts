import type { z } from 'zod';
import { CONFLICT, DEAD_LETTER_REASONS } from '../../../shared/contracts/dead-letter.ts';
import type { ErrorDetail, Refusal } from '../../../shared/contracts/errors.ts';
import { int32, objectOf, oneOf, timestampField } from '../../../shared/contracts/fields.ts';
import type { JsonObject } from '../../../shared/contracts/json.ts';
import { isKind, KINDS, topicOf } from '../../../shared/contracts/kinds.ts';
import { validateKnown } from '../../../shared/contracts/known-members.ts';
import { validate } from '../../../shared/contracts/parsed.ts';
import { parseTimestampNs } from '../../../shared/contracts/timestamps.ts';
import { type DeadLetterFilter, STATES, UNSETTLED } from '../../../shared/postgres/dead-letter-lists.ts';

/** Maximum dead letters that one request replays or drops, and the default. */
export const LETTERS_MAX = 1000;
/**
 * Milliseconds for which a dead letter in the state `replaying` is neither replayed again nor
 * dropped: its record is on its way through the log.
 */
export const REPLAY_MS = 600_000;

const SHAPE = {
  kind: oneOf(KINDS).nullish().describe('Only this kind of record.'),
  reason: oneOf(DEAD_LETTER_REASONS).nullish().describe('Only this reason.'),
  from: timestampField.nullish().describe('Only failures at or after this time.'),
  to: timestampField.nullish().describe('Only failures before this time.'),
};

export const listSchema = objectOf({
  ...SHAPE,
  state: oneOf(STATES).nullish().describe('Only this state. Omitted: `open` and `replaying`.'),
});

/** A selection of dead letters to replay or drop, at least one of whose filters is given. */
export const selectionSchema = objectOf({
  ...SHAPE,
  limit: int32(1, LETTERS_MAX).nullish().describe(`Maximum number of dead letters; omitted: ${LETTERS_MAX}.`),
});

/** The owner of dead letters, and the prefix of the names of topics. */
export interface Owner {
  readonly tenantId: string;
  readonly topicPrefix: string;
}

type Read<T> = ({ readonly ok: true } & T) | { readonly ok: false; readonly refusal: Refusal };

/** Reads the parameters of a list, as texts. */
export function readListFilter(
  texts: Readonly<Record<string, string | undefined>>,
  owner: Owner,
): Read<{ readonly filter: DeadLetterFilter }> {
  const read = validate({ ...texts } as JsonObject, listSchema);
  if (!read.ok) return refused('400-01', read.details);
  const { state } = read.value;
  const states = state ? STATES.filter((one) => one === state) : UNSETTLED;
  return filterOf(read.value, owner, states);
}

/**
 * Reads the body of a request that replays or drops several dead letters. `conflicts`: whether
 * conflicts are among them if no reason is given.
 */
export function readSelection(
  body: JsonObject,
  owner: Owner,
  { nowMs, conflicts }: { readonly nowMs: number; readonly conflicts: boolean },
): Read<{ readonly filter: DeadLetterFilter; readonly limit: number }> {
  const read = validateKnown(body, selectionSchema);
  if (!read.ok) return refused('422-01', read.details);
  const { kind, reason, from, to, limit } = read.value;
  if ([kind, reason, from, to].every((filter) => !filter)) {
    return refused('422-01', [{ path: 'body', message: 'must have one of kind, reason, from and to' }]);
  }
  const result = filterOf(read.value, owner, UNSETTLED);
  if (!result.ok) return result;
  const reasonLeftOut = conflicts || reason ? undefined : CONFLICT;
  const filter = { ...result.filter, reasonLeftOut, replayingSinceBefore: nowMs - REPLAY_MS };
  return { ok: true, filter, limit: limit ?? LETTERS_MAX };
}

type Texts = Pick<z.output<typeof listSchema>, 'kind' | 'reason' | 'from' | 'to'>;

function filterOf(
  { kind, reason, from, to }: Texts,
  { tenantId, topicPrefix }: Owner,
  states: DeadLetterFilter['states'],
): Read<{ readonly filter: DeadLetterFilter }> {
  const [after, before] = [timeMs(from), timeMs(to)];
  if (after !== undefined && before !== undefined && after >= before) {
    return refused('422-01', [{ path: 'to', message: 'must be after from' }]);
  }
  const kinds = kind && isKind(kind) ? [kind] : KINDS;
  const topics = kinds.map((one) => topicOf(topicPrefix, one));
  return { ok: true, filter: { tenantId, topics, states, reason: reason ?? undefined, after, before } };
}

/** Returns the first whole millisecond that is not before the time. Stored times are whole too. */
function timeMs(time: unknown): number | undefined {
  return typeof time === 'string' ? Number((parseTimestampNs(time)! + 999_999n) / 1_000_000n) : undefined;
}

function refused(code: '400-01' | '422-01', details: readonly ErrorDetail[]) {
  return { ok: false as const, refusal: { code, details } };
}
