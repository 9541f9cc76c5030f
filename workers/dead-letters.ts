import { DEAD_LETTER_HEADERS, ORIGIN_HEADER } from '../shared/contracts/event.ts';
import { deadLetterTopicOf, type Kind } from '../shared/contracts/kinds.ts';
import { writeOrigin } from '../shared/contracts/origin.ts';
import { AppError } from '../shared/errors.ts';
import type { OutgoingRecord, Publisher } from '../shared/log/log.ts';
import type { Signal } from '../shared/postgres/insert-signals.ts';
import type { DeadLetter } from './settle-keys.ts';

/**
 * Puts records into their topic's dead-letter topic, in the partition that they came from, and resolves once the log
 * has acknowledged all. Rejects with a retryable AppError `LOG_UNAVAILABLE` otherwise; some may then be there twice
 * later on, and are known by their original position.
 */
export async function publishDeadLetters(
  publisher: Publisher,
  place: { readonly topic: string; readonly partition: number },
  deadLetters: readonly DeadLetter<unknown>[],
  nowMs: number,
): Promise<void> {
  let records = deadLetters.map((deadLetter) => toOutgoing(place, deadLetter, nowMs));
  while (records.length > 0) {
    const outcomes = await publisher.publish(deadLetterTopicOf(place.topic), records);
    const failed = outcomes.find((outcome) => !outcome.ok);
    if (!failed) return;
    const tooLarge = outcomes.map(
      (outcome, i) => !outcome.ok && outcome.reason === 'too-large' && records[i]!.value.length > 0,
    );
    if (!tooLarge.includes(true)) {
      throw new AppError('LOG_UNAVAILABLE', 'the log does not take dead letters', { retryable: true });
    }
    // Headers made it larger than the log takes. Its position tells where the whole one is, as long as the log has it.
    records = records.map((record, i) => (tooLarge[i] ? withoutValue(record) : record));
  }
}

function toOutgoing(
  { topic, partition }: { readonly topic: string; readonly partition: number },
  { candidate, rejection }: DeadLetter<unknown>,
  nowMs: number,
): OutgoingRecord {
  return {
    partition,
    key: candidate.log.key ?? '',
    value: candidate.log.value,
    headers: {
      ...candidate.log.headers,
      [ORIGIN_HEADER]: writeOrigin({ topic, ...candidate.origin }),
      [DEAD_LETTER_HEADERS.reason]: rejection.reason,
      [DEAD_LETTER_HEADERS.stage]: rejection.stage,
      [DEAD_LETTER_HEADERS.error]: rejection.text,
      [DEAD_LETTER_HEADERS.failedAt]: new Date(nowMs).toISOString(),
    },
  };
}

function withoutValue(record: OutgoingRecord): OutgoingRecord {
  return {
    ...record,
    value: Buffer.alloc(0),
    headers: { ...record.headers, [DEAD_LETTER_HEADERS.valueLeftOut]: String(record.value.length) },
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
