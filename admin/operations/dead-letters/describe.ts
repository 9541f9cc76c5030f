import type { FirstPosition } from '../../../shared/contracts/first-position.ts';
import { isKind, topicOf } from '../../../shared/contracts/kinds.ts';
import { type DeadLetterLine, UNSETTLED } from '../../../shared/postgres/dead-letter-lists.ts';

const ID = /^(\d{1,9})\.([a-z-]{1,64})\.(\d{1,9})\.(\d{1,18})$/;

/**
 * Returns the id of a dead letter: generation, kind, partition and offset at which the record was
 * first read. Unlike the position that the command prints, it fits into a path.
 */
function idOf({ generation, kind, partition, offset }: DeadLetterLine): string {
  return `${generation}.${kind}.${partition}.${offset}`;
}

/** Returns the position that an id names; undefined if the text is no id. */
export function readDeadLetterId(text: string, topicPrefix: string): FirstPosition | undefined {
  const [, generation, kind, partition, offset] = ID.exec(text) ?? [];
  if (kind === undefined || !isKind(kind)) return undefined;
  return {
    generation: Number(generation),
    topic: topicOf(topicPrefix, kind),
    partition: Number(partition),
    offset: BigInt(offset!),
  };
}

/** Returns a dead letter as the operations show it, without its value. */
export function describeDeadLetter(letter: DeadLetterLine) {
  const { kind, recordId, reason, stage, error, state, stateAtMs, replay, hasValue } = letter;
  return {
    deadLetterId: idOf(letter),
    kind,
    recordId: recordId || null,
    reason,
    stage,
    // A member `error` would look like the answer of a failure.
    problem: error,
    failedAt: new Date(letter.failedAtMs).toISOString(),
    expiresAt: new Date(letter.expiresAtMs).toISOString(),
    state,
    settledAt: UNSETTLED.includes(state) ? null : new Date(stateAtMs).toISOString(),
    replays: replay,
    replayable: hasValue && UNSETTLED.includes(state),
  };
}
