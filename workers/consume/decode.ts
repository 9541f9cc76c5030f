import type { DeadLetterReason } from '../../shared/contracts/dead-letter.ts';
import type { Envelope } from '../../shared/contracts/event.ts';
import {
  type AcceptedRecord,
  decodeEvent,
  EventError,
  FIRST_POSITION_HEADER,
  REPLAY_HEADER,
} from '../../shared/contracts/event.ts';
import { readFirstPosition } from '../../shared/contracts/first-position.ts';
import { headerText } from '../../shared/log/headers.ts';
import type { LogRecord } from '../../shared/log/log.ts';
import { DataError, type ReadRecord, type RecordKind } from '../kinds/record-kind.ts';
import type { ReadAt } from '../sql/read-positions.ts';

/** The reason why a record becomes a dead letter. */
export interface Rejection {
  readonly reason: DeadLetterReason;
  /** The step that failed: decoding the event, checking its data, or storing it. */
  readonly stage: 'decode' | 'check' | 'store';
  /** Text for operators, without values of the record. */
  readonly text: string;
}

/** The tenant and id of a record whose other data may be unreadable. */
export type Identity = Pick<
  Envelope,
  'tenantId' | 'id' | 'idGenerated' | 'contentHash' | 'acceptedAtMs' | 'traceparent'
>;

/** A record of the log after decoding: one that can be stored, or a rejected one. */
export interface Candidate<Row> {
  readonly log: LogRecord;
  readonly firstPosition: ReadAt;
  /** The number of the replay of a replayed dead letter; 0 if the replay has no number. */
  readonly replay: number | undefined;
  readonly identity: Identity | undefined;
  /** Whether the value must not be read again: it is no JSON object, or it crashed the process. */
  readonly unreadable: boolean;
  readonly outcome:
    | { readonly ok: true; readonly record: ReadRecord<Row> }
    | { readonly ok: false; readonly rejection: Rejection };
}

export interface DecodeContext {
  readonly topic: string;
  readonly partition: number;
  readonly generation: number;
  readonly nowMs: number;
  /** Records accepted longer ago than this are rejected, in milliseconds. */
  readonly recordAgeMaxMs: number;
}

const DAY_MS = 86_400_000;
const SHA256_HEX = /^[0-9a-f]{64}$/;

/** Decodes and checks one record of the log. Never throws because of its content. */
export function toCandidate<Row>(
  kind: RecordKind<Row>,
  log: LogRecord,
  context: DecodeContext,
): Candidate<Row> {
  const read = { generation: context.generation, partition: context.partition, offset: log.offset };
  const { firstPosition, replay } = firstPositionOf(log, context.topic, read);
  let event: Envelope;
  let row: Row | undefined;
  try {
    const scanned = kind.scanner?.read(log.value);
    if (scanned) ({ event, data: row } = scanned);
    else event = decodeEvent(log.value, kind.kind);
  } catch (error) {
    if (!(error instanceof EventError)) throw error;
    const rejection: Rejection = { reason: error.reason, stage: 'decode', text: error.message };
    const identity = partialIdentity(error, log);
    const unreadable = !error.isObject;
    return { log, firstPosition, replay, identity, unreadable, outcome: { ok: false, rejection } };
  }
  try {
    checkEnvelope(event, context);
    const record = { event, row: row ?? kind.read(event as AcceptedRecord), read, firstPosition };
    const unreadable = false;
    return { log, firstPosition, replay, identity: event, unreadable, outcome: { ok: true, record } };
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    const reason = error instanceof TimeError ? 'time' : 'invalid';
    return {
      log,
      firstPosition,
      replay,
      // The id must stay traceable even if a hash or time cannot be stored.
      identity: { ...event, contentHash: undefined, acceptedAtMs: log.timestampMs },
      unreadable: false,
      outcome: { ok: false, rejection: { reason, stage: 'check', text: error.message } },
    };
  }
}

/** Returns the candidate, rejected. */
export function rejected<Row>(candidate: Candidate<Row>, rejection: Rejection): Candidate<Row> {
  return { ...candidate, outcome: { ok: false, rejection } };
}

/** Returns a rejected candidate without decoding the record. */
export function rejectedUnread<Row>(
  log: LogRecord,
  rejection: Rejection,
  context: DecodeContext,
): Candidate<Row> {
  const read = { generation: context.generation, partition: context.partition, offset: log.offset };
  return {
    log,
    ...firstPositionOf(log, context.topic, read),
    identity: undefined,
    unreadable: true,
    outcome: { ok: false, rejection },
  };
}

class TimeError extends DataError {}

function checkEnvelope(event: Envelope, context: DecodeContext): void {
  if (event.contentHash !== undefined && !SHA256_HEX.test(event.contentHash)) {
    throw new DataError('contenthash is not a SHA-256 in hex');
  }
  if (event.acceptedAtMs > context.nowMs + DAY_MS)
    throw new TimeError('time is more than 1 day in the future');
  if (event.acceptedAtMs < context.nowMs - context.recordAgeMaxMs) {
    throw new TimeError('time is older than the retention of records');
  }
}

function partialIdentity(error: EventError, log: LogRecord): Identity | undefined {
  const { tenantId, id } = error;
  if (!tenantId || !id) return undefined;
  return { tenantId, id, idGenerated: false, acceptedAtMs: log.timestampMs };
}

const REPLAY = /^\d{1,9}$/;

/**
 * Returns the position at which a record was first read and, for a replayed record, the number of
 * the replay.
 */
function firstPositionOf(
  log: LogRecord,
  topic: string,
  read: ReadAt,
): Pick<Candidate<unknown>, 'firstPosition' | 'replay'> {
  const text = headerText(log.headers, FIRST_POSITION_HEADER);
  const first = text === undefined ? undefined : readFirstPosition(text);
  if (first?.topic !== topic) return { firstPosition: read, replay: undefined };
  const { generation, partition, offset } = first;
  const number = headerText(log.headers, REPLAY_HEADER) ?? '';
  return {
    firstPosition: { generation, partition, offset },
    replay: REPLAY.test(number) ? Number(number) : 0,
  };
}

/** Returns the text form of a position within a topic. */
export function positionText({ generation, partition, offset }: ReadAt): string {
  return `${generation}/${partition}/${offset}`;
}
