import { cutKey, DEAD_LETTER_HEADERS, ORIGIN_HEADER } from '../../shared/contracts/event.ts';
import { deadLetterTopicOf, type Kind } from '../../shared/contracts/kinds.ts';
import { writeOrigin } from '../../shared/contracts/origin.ts';
import { AppError } from '../../shared/errors.ts';
import type { OutgoingRecord, Publisher } from '../../shared/log/log.ts';
import type { Signal } from '../sql/insert-signals.ts';
import type { DeadLetter } from './deduplicate.ts';

/** Characters of the reason in words on a dead letter that is written without what it came with. */
const ERROR_MAX = 1024;

type Place = { readonly topic: string; readonly partition: number };

/**
 * Puts records into their topic's dead-letter topic, in the partition that they came from, and resolves once the log
 * has acknowledged all. Rejects with a retryable AppError `LOG_UNAVAILABLE` otherwise; some may then be there twice
 * later on, and are known by their original position.
 */
export async function publishDeadLetters(
  publisher: Publisher,
  place: Place,
  deadLetters: readonly DeadLetter<unknown>[],
  nowMs: number,
): Promise<void> {
  let pending = deadLetters.map((deadLetter) => ({ deadLetter, shape: 0 }));
  while (pending.length > 0) {
    const records = pending.map(({ deadLetter, shape }) => SHAPES[shape]!(place, deadLetter, nowMs));
    const outcomes = await publisher.publish(deadLetterTopicOf(place.topic), records);
    let smaller = false;
    pending = pending.flatMap(({ deadLetter, shape }, i) => {
      const outcome = outcomes[i]!;
      if (outcome.ok) return [];
      // Its position tells where the whole one is, as long as the log has it.
      const tooLarge = outcome.reason === 'too-large' && shape < SHAPES.length - 1;
      smaller ||= tooLarge;
      return [{ deadLetter, shape: tooLarge ? shape + 1 : shape }];
    });
    if (pending.length > 0 && !smaller) {
      throw new AppError('LOG_UNAVAILABLE', 'the log does not take dead letters', { retryable: true });
    }
  }
}

/** How a dead letter may be written, from all of it to what a log takes whatever the record was. */
const SHAPES: readonly ((place: Place, deadLetter: DeadLetter<unknown>, nowMs: number) => OutgoingRecord)[] =
  [whole, withoutValue, withoutAnythingLarge];

function whole(place: Place, deadLetter: DeadLetter<unknown>, nowMs: number): OutgoingRecord {
  const { log } = deadLetter.candidate;
  return {
    partition: place.partition,
    key: log.key ?? '',
    value: log.value,
    headers: { ...log.headers, ...addedHeaders(place, deadLetter, nowMs) },
  };
}

/** The headers that are added made it larger than the log takes. */
function withoutValue(place: Place, deadLetter: DeadLetter<unknown>, nowMs: number): OutgoingRecord {
  const record = whole(place, deadLetter, nowMs);
  return {
    ...record,
    value: Buffer.alloc(0),
    headers: { ...record.headers, [DEAD_LETTER_HEADERS.valueLeftOut]: String(record.value.length) },
  };
}

/**
 * Whoever else writes to the topics may use up all room for headers, or a key of bytes that are not UTF-8, which grow
 * when they are read as text. Were it not set aside, nothing behind it in its partition would be stored.
 */
function withoutAnythingLarge(place: Place, deadLetter: DeadLetter<unknown>, nowMs: number): OutgoingRecord {
  const added = addedHeaders(place, deadLetter, nowMs);
  const { log } = deadLetter.candidate;
  return {
    partition: place.partition,
    key: cutKey(log.key ?? ''),
    value: Buffer.alloc(0),
    headers: {
      ...added,
      [DEAD_LETTER_HEADERS.error]: deadLetter.rejection.text.slice(0, ERROR_MAX),
      [DEAD_LETTER_HEADERS.valueLeftOut]: String(log.value.length),
    },
  };
}

function addedHeaders(
  { topic }: Place,
  { candidate, rejection }: DeadLetter<unknown>,
  nowMs: number,
): Record<string, string> {
  return {
    [ORIGIN_HEADER]: writeOrigin({ topic, ...candidate.origin }),
    [DEAD_LETTER_HEADERS.reason]: rejection.reason,
    [DEAD_LETTER_HEADERS.stage]: rejection.stage,
    [DEAD_LETTER_HEADERS.error]: rejection.text,
    [DEAD_LETTER_HEADERS.failedAt]: new Date(nowMs).toISOString(),
  };
}

/**
 * Tells the owners, as far as they are known. A dead letter that was published again and failed again is not told twice.
 */
export function rejectionSignals(
  kind: Kind,
  deadLetters: readonly DeadLetter<unknown>[],
  nowMs: number,
): Signal[] {
  return deadLetters.flatMap(({ candidate: { identity, replayed }, rejection }) => {
    if (!identity || replayed) return [];
    return [
      {
        tenantId: identity.tenantId,
        type: 'ingestion.record_rejected' as const,
        orderingKey: null,
        timestampMs: nowMs,
        data: { eventId: identity.id, kind, reason: rejection.reason, error: rejection.text },
      },
    ];
  });
}
