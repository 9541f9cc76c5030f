import { DEAD_LETTER_HEADERS, ORIGIN_HEADER } from '../../shared/contracts/event.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { SettledAs } from '../../shared/contracts/mark.ts';
import type { LogRecord } from '../../shared/log/log.ts';

/** A partition of a dead-letter topic. */
export interface LetterPlace {
  readonly topic: string;
  readonly partition: number;
  readonly kind: Kind;
}

/** A record that could not be stored, as it lies in its dead-letter topic. */
export interface DeadLetter extends LetterPlace {
  /** Where it was read first, `generation/topic/partition/offset`: its name, since it may lie in the topic twice. */
  readonly origin: string;
  readonly offset: string;
  readonly reason: string;
  readonly stage: string;
  readonly error: string;
  readonly failedAt: string;
  /** Null where the record could not be read so far. */
  readonly tenantId: string | null;
  readonly id: string | null;
  readonly record: LogRecord;
}

/** What became of a dead letter, and when. */
export interface Settlement {
  readonly state: SettledAs;
  readonly settledAt: string;
}

/** A dead letter that a search found: where it lies and what is needed to choose among many, without its value. */
export interface FoundLetter {
  readonly place: LetterPlace;
  readonly origin: string;
  readonly offset: bigint;
  readonly key: string;
  /** Bytes of its value, also where that was left out. */
  readonly bytes: number;
  readonly reason: string;
  readonly failedAt: string;
  /** Undefined while it is open. */
  readonly settlement: Settlement | undefined;
}

export function toDeadLetter(place: LetterPlace, record: LogRecord): DeadLetter {
  const { headers } = record;
  const { tenantId, id } = identityOf(record);
  return {
    origin: headers[ORIGIN_HEADER] ?? `?/${place.topic}/${place.partition}/${record.offset}`,
    ...place,
    offset: record.offset.toString(),
    reason: headers[DEAD_LETTER_HEADERS.reason] ?? '',
    stage: headers[DEAD_LETTER_HEADERS.stage] ?? '',
    error: headers[DEAD_LETTER_HEADERS.error] ?? '',
    failedAt: headers[DEAD_LETTER_HEADERS.failedAt] ?? new Date(record.timestampMs).toISOString(),
    tenantId,
    id,
    record,
  };
}

/** The bytes of a value that was left out; undefined where it is there. */
export function bytesLeftOut({ headers }: LogRecord): number | undefined {
  const text = headers[DEAD_LETTER_HEADERS.valueLeftOut];
  return text === undefined ? undefined : Number(text);
}

/** The tenant that a key begins with. */
export function tenantOfKey(key: string | null): string | null {
  return key?.includes(':') ? key.slice(0, key.indexOf(':')) : null;
}

/** Of a value that may be anything; the key begins with the tenant even where the value is broken. */
function identityOf({ value, key }: LogRecord): { tenantId: string | null; id: string | null } {
  const fromKey = tenantOfKey(key);
  try {
    const event = JSON.parse(value.toString()) as { tenantid?: unknown; id?: unknown };
    return {
      tenantId: typeof event.tenantid === 'string' ? event.tenantid : fromKey,
      id: typeof event.id === 'string' ? event.id : null,
    };
  } catch {
    return { tenantId: fromKey, id: null };
  }
}
