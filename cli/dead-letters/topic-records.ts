import { deadLetterKeptMs, identityOf } from '../../shared/contracts/dead-letter.ts';
import { FIRST_POSITION_HEADER } from '../../shared/contracts/event.ts';
import { type FirstPosition, readFirstPosition } from '../../shared/contracts/first-position.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { headerText, toPairs } from '../../shared/log/headers.ts';
import type { LogRecord } from '../../shared/log/log.ts';
import type { DeadLetter } from '../../shared/postgres/dead-letters.ts';
import type { Resolution } from '../sql/dead-letter-imports.ts';

/**
 * Reads the records that earlier releases wrote to dead-letter topics: dead letters, followed by
 * resolutions that settle them.
 */

/** Headers of a dead letter, in addition to the headers of its record and its first position. */
const LETTER_HEADERS = {
  reason: 'sluice-reason',
  stage: 'sluice-stage',
  error: 'sluice-error',
  /** Time of the failure (RFC 3339). */
  failedAt: 'sluice-failed-at',
  /** Bytes of the value, if the record was too large for the topic and has no value. */
  valueLeftOut: 'sluice-value-left-out',
} as const;

/** Headers of a resolution, which has no value. */
const RESOLUTION_HEADERS = {
  settled: 'sluice-settled',
  settledAt: 'sluice-settled-at',
  /**
   * Offset of the dead letter that the resolution settles. A later dead letter of the same position
   * stays open.
   */
  settledOffset: 'sluice-settled-offset',
} as const;

const ADDED: ReadonlySet<string> = new Set([
  FIRST_POSITION_HEADER,
  ...Object.values(LETTER_HEADERS),
  ...Object.values(RESOLUTION_HEADERS),
]);
const ERROR_LENGTH_MAX = 1024;
/** The generation of records without a first position. Generations of topics begin at 1. */
const NO_GENERATION = 0;

/** Returns the bytes of a value that was left out; undefined if the record has its value. */
export function bytesLeftOut({ headers }: LogRecord): number | undefined {
  const text = headerText(headers, LETTER_HEADERS.valueLeftOut);
  return text === undefined ? undefined : Number(text);
}

/**
 * Returns the record as a resolution; undefined for a dead letter. A dead letter may have a
 * resolution's headers from its record, but only a dead letter has a reason.
 */
export function readResolution(topic: string, { headers }: LogRecord): Resolution | undefined {
  const firstPosition = readFirstPosition(headerText(headers, FIRST_POSITION_HEADER) ?? '');
  const offset = headerText(headers, RESOLUTION_HEADERS.settledOffset) ?? '';
  const settled = headerText(headers, RESOLUTION_HEADERS.settled);
  if (firstPosition?.topic !== topic || !/^\d{1,18}$/.test(offset)) return undefined;
  if (settled !== 'replayed' && settled !== 'dropped') return undefined;
  if (headerText(headers, LETTER_HEADERS.reason) !== undefined) return undefined;
  const stateAtMs = Date.parse(headerText(headers, RESOLUTION_HEADERS.settledAt) ?? '') || 0;
  return { ...firstPosition, state: settled, stateAtMs, upTo: BigInt(offset) };
}

/**
 * Returns the first position of a dead letter's record. If the record has none, returns a position
 * that no record of the topic has.
 */
export function firstPositionOf(topic: string, partition: number, record: LogRecord): FirstPosition {
  const firstPosition = readFirstPosition(headerText(record.headers, FIRST_POSITION_HEADER) ?? '');
  if (firstPosition?.topic === topic) return firstPosition;
  return { generation: NO_GENERATION, topic, partition, offset: record.offset };
}

export interface LetterContext {
  readonly kind: Kind;
  readonly firstPosition: FirstPosition;
  /** Key, value and headers as received. The value is null if the log no longer has the value. */
  readonly content: Pick<LogRecord, 'key' | 'headers'> & { readonly value: Buffer | null };
  readonly credentialsTtlMs: number;
  readonly nowMs: number;
}

/** Returns the row of a dead letter. */
export function toDeadLetter(record: LogRecord, context: LetterContext): DeadLetter {
  const { kind, firstPosition, content, nowMs } = context;
  const text = (name: string) =>
    (headerText(record.headers, name) ?? '')
      .slice(0, ERROR_LENGTH_MAX)
      .toWellFormed()
      .replaceAll('\0', '\ufffd');
  const failedAtMs = timeOf(Date.parse(text(LETTER_HEADERS.failedAt)), timeOf(record.timestampMs, nowMs));
  const { acceptedAtMs, ...identity } = identityOf(content.value, content.key);
  const accepted = Math.min(timeOf(acceptedAtMs ?? 0, failedAtMs), failedAtMs);
  return {
    generation: firstPosition.generation,
    partition: firstPosition.partition,
    offset: firstPosition.offset,
    ...identity,
    reason: text(LETTER_HEADERS.reason) || 'unknown',
    stage: text(LETTER_HEADERS.stage),
    error: text(LETTER_HEADERS.error),
    key: content.key,
    value: content.value,
    headers: Buffer.from(JSON.stringify(toPairs(content.headers.filter(({ name }) => !ADDED.has(name))))),
    acceptedAtMs: accepted,
    failedAtMs,
    valueExpiresAtMs: kind === 'credentials' ? accepted + context.credentialsTtlMs : null,
    expiresAtMs: failedAtMs + deadLetterKeptMs(kind),
    replay: 0,
    importedOffset: record.offset,
  };
}

/** Returns `ms` if it is a valid time, else `otherwise`. */
function timeOf(ms: number, otherwise: number): number {
  return ms > 0 && ms < 4e12 ? ms : otherwise;
}
