import { contentHeaders, deadLetterKeptMs, identityOf } from '../../shared/contracts/dead-letter.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { QualityCounts } from '../../shared/data-quality/counts.ts';
import { toPairs } from '../../shared/log/headers.ts';
import type { LogHeader } from '../../shared/log/log.ts';
import { mapInSlices } from '../../shared/map-in-slices.ts';
import {
  comparePositions,
  type DeadLetter as DeadLetterRow,
  writeDeadLetters,
} from '../../shared/postgres/dead-letters.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import { settleReplayed } from '../sql/dead-letters.ts';
import type { WebhookEvent } from '../sql/webhook-events.ts';
import { type Candidate, positionText } from './decode.ts';
import type { DeadLetter } from './deduplicate.ts';

/** The records of a slice, and those that become dead letters. */
export interface Outcome<Row> {
  readonly topic: string;
  /** All records of the transaction. */
  readonly candidates: readonly Candidate<Row>[];
  readonly deadLetters: readonly DeadLetter<Row>[];
  /** Whether to store only position, reason and bytes. */
  readonly bare: boolean;
  readonly quality: QualityCounts;
}

const ERROR_LENGTH_MAX = 1024;

/**
 * Writes the dead letters of a slice, counts them, and marks stored replays as such, in the caller's
 * transaction. Reopens the row of a rejected replay.
 */
export async function recordDeadLetters<Row>(
  db: Queryable,
  kind: RecordKind<Row>,
  { topic, candidates, deadLetters, bare, quality }: Outcome<Row>,
  nowMs: number,
): Promise<void> {
  const rejected = new Set(deadLetters.map(({ candidate }) => candidate));
  const storedReplays = candidates.filter(
    (candidate) => candidate.replay !== undefined && !rejected.has(candidate),
  );
  if (deadLetters.length > 0) {
    const headersOf = createHeaderEncoder();
    const rows = await mapInSlices(sorted(deadLetters), (deadLetter) => {
      const row = toRow(kind, deadLetter, { bare, nowMs, headersOf });
      if (deadLetter.candidate.replay === undefined) countDeadLetter(quality, kind.kind, row);
      return row;
    });
    const allowed = bare ? rows : ((await kind.withoutErased?.(db, rows)) ?? rows);
    await writeDeadLetters(db, { topic, kind: kind.kind }, allowed);
  }
  const positions = storedReplays.map(({ firstPosition }) => firstPosition);
  await settleReplayed(db, topic, positions, nowMs);
}

/**
 * Returns the last dead letter of each position, sorted. A record may be replayed twice in a slice.
 */
function sorted<Row>(deadLetters: readonly DeadLetter<Row>[]): DeadLetter<Row>[] {
  const last = new Map(deadLetters.map((letter) => [positionText(letter.candidate.firstPosition), letter]));
  return [...last.values()].sort((a, b) =>
    comparePositions(a.candidate.firstPosition, b.candidate.firstPosition),
  );
}

/** Counts a dead letter, if its tenant is known. */
function countDeadLetter(
  quality: QualityCounts,
  kind: Kind,
  { tenantId, acceptedAtMs, reason }: DeadLetterRow,
): void {
  if (tenantId !== '') quality.add(tenantId, acceptedAtMs, { measure: 'dead-letter', kind, code: reason });
}

const UNKNOWN = { tenantId: '', recordId: '', entity: '', acceptedAtMs: undefined, keyId: null };

interface RowContext {
  readonly bare: boolean;
  readonly nowMs: number;
  readonly headersOf: (headers: readonly LogHeader[]) => Buffer;
}

function toRow<Row>(
  { kind, valuesKeptMs }: RecordKind<Row>,
  { candidate, rejection }: DeadLetter<Row>,
  { bare, nowMs, headersOf }: RowContext,
): DeadLetterRow {
  const { log, firstPosition, replay = 0, unreadable } = candidate;
  const { acceptedAtMs = log.timestampMs, ...identity } = bare
    ? UNKNOWN
    : identityOf(unreadable ? null : log.value, log.key);
  const accepted = Math.min(acceptedAtMs > 0 ? acceptedAtMs : nowMs, nowMs);
  return {
    ...firstPosition,
    ...identity,
    ...rejection,
    error: bare ? '' : storable(rejection.text),
    key: log.key,
    value: log.value,
    headers: headersOf(log.headers),
    acceptedAtMs: accepted,
    failedAtMs: nowMs,
    valueExpiresAtMs: valuesKeptMs === undefined ? null : accepted + valuesKeptMs,
    expiresAtMs: nowMs + deadLetterKeptMs(kind),
    replay,
    importedOffset: null,
  };
}

/** Returns a function that encodes headers, once per list: records that were read together share it. */
function createHeaderEncoder(): (headers: readonly LogHeader[]) => Buffer {
  const known = new Map<readonly LogHeader[], Buffer>();
  return (headers) => {
    const encoded = known.get(headers) ?? Buffer.from(JSON.stringify(toPairs(contentHeaders(headers))));
    known.set(headers, encoded);
    return encoded;
  };
}

function storable(text: string): string {
  return text.slice(0, ERROR_LENGTH_MAX).toWellFormed().replaceAll('\0', '\ufffd');
}

/**
 * Returns one webhook event per dead letter with a known tenant. A replay that fails again causes
 * no event.
 */
export function rejectionEvents(
  kind: Kind,
  deadLetters: readonly DeadLetter<unknown>[],
  nowMs: number,
): WebhookEvent[] {
  return deadLetters.flatMap(({ candidate: { identity, replay }, rejection }) => {
    if (!identity || replay !== undefined) return [];
    return [
      {
        tenantId: identity.tenantId,
        type: 'ingestion.record_rejected' as const,
        orderingKey: null,
        timestampMs: nowMs,
        traceparent: identity.traceparent,
        data: { eventId: identity.id, kind, reason: rejection.reason, error: rejection.text },
      },
    ];
  });
}
