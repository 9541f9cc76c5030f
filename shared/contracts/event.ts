import { isJsonObject, type JsonObject, JsonSyntaxError, writeJson } from './json.ts';
import { CLOSE_BRACE } from './json-bytes.ts';
import { isKind, type Kind } from './kinds.ts';
import { readJson } from './read-json.ts';
import { StacklessError } from './stackless-error.ts';

/** A record in the log. */
export interface AcceptedRecord {
  readonly kind: Kind;
  readonly tenantId: string;
  /** eventId, or messageId for MessageSent. */
  readonly id: string;
  /** Whether the gateway generated the id. If so, no caller can send the record again. */
  readonly idGenerated: boolean;
  /** The entity that the record describes. Records of one entity are ordered. */
  readonly entity: string;
  readonly acceptedAtMs: number;
  readonly requestId: string;
  /** W3C trace context of the request. */
  readonly traceparent?: string | undefined;
  /** SHA-256 in hex; undefined for credentials. */
  readonly contentHash?: string | undefined;
  readonly data: JsonObject;
}

/** A record without its data. */
export type Envelope = Omit<AcceptedRecord, 'data'>;

/** Headers of every record in the log (CloudEvents Kafka protocol binding, structured mode). */
export const EVENT_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'application/cloudevents+json; charset=utf-8',
};

/** Header of a republished record: the position at which it was first read. */
export const FIRST_POSITION_HEADER = 'sluice-origin';

/** Header of a replayed dead letter: the number of the replay, from 1. */
export const REPLAY_HEADER = 'sluice-replay';

/** Maximum bytes of a record's encoded data. */
export const RECORD_BYTES_MAX = 512 * 1024;

/** Members of automation events whose objects are kept byte for byte. */
export const AUTOMATION_EVENT_RAW_MEMBERS: ReadonlySet<string> = new Set([
  'inputVariables',
  'referenceVariables',
  'transferVariables',
]);

/**
 * Maximum depth of an event: the envelope adds a few levels to the depth that requests may have.
 */
const EVENT_DEPTH_MAX = 40;
/**
 * Enough for every accepted record: a value takes at least 2 bytes of a message, which has at most
 * 2 MiB.
 */
const VALUES_MAX = 1024 * 1024;
const TYPE = /^sluice\.([a-z-]+)\.v([0-9]+)$/;

/** Returns the record as a CloudEvents 1.0 event in structured JSON mode. */
export function encodeEvent(record: AcceptedRecord): Buffer {
  return encodeEventWith(record, writeJson(record.data));
}

/** Returns the event of a record whose data is JSON already: text, or its bytes in UTF-8. */
export function encodeEventWith(envelope: Envelope, data: string | Buffer): Buffer {
  const head = headOf(envelope);
  if (typeof data === 'string') return Buffer.from(`${head}${data}}`);
  const headBytes = Buffer.byteLength(head);
  const event = Buffer.allocUnsafe(headBytes + data.length + 1);
  event.write(head);
  data.copy(event, headBytes);
  event[event.length - 1] = CLOSE_BRACE;
  return event;
}

/** Returns the event up to its data. */
function headOf(record: Envelope): string {
  const { contentHash } = record;
  const { source, request } = partsOf(record);
  return (
    `{"specversion":"1.0","id":${quoted(record.id)}${source}${quoted(record.entity)}${request}` +
    (contentHash === undefined ? '' : `,"contenthash":${quoted(contentHash)}`) +
    `${record.idGenerated ? ',"generatedid":true' : ''},"data":`
  );
}

type OfRequest = Pick<Envelope, 'kind' | 'tenantId' | 'acceptedAtMs' | 'requestId' | 'traceparent'>;

let lastRequest: OfRequest | undefined;
/** The parts of the last event that all records of its request share. */
let lastParts = { source: '', request: '' };

function partsOf(record: OfRequest): typeof lastParts {
  if (lastRequest !== undefined && isSameRequest(record, lastRequest)) return lastParts;
  const { kind, tenantId, acceptedAtMs, requestId, traceparent } = record;
  const tenant = quoted(tenantId);
  lastParts = {
    source: `,"source":${quoted(`/tenants/${tenantId}/${kind}`)},"type":"sluice.${kind}.v1","subject":`,
    request:
      `,"time":"${timeOf(acceptedAtMs)}","datacontenttype":"application/json","tenantid":${tenant}` +
      `,"requestid":${quoted(requestId)}` +
      (traceparent === undefined ? '' : `,"traceparent":${quoted(traceparent)}`),
  };
  lastRequest = { kind, tenantId, acceptedAtMs, requestId, traceparent };
  return lastParts;
}

function isSameRequest(one: OfRequest, other: OfRequest): boolean {
  return (
    one.requestId === other.requestId &&
    one.acceptedAtMs === other.acceptedAtMs &&
    one.tenantId === other.tenantId &&
    one.kind === other.kind &&
    one.traceparent === other.traceparent
  );
}

const PLAIN = /^[ !#-[\]-~]*$/;

/** Returns the text as a JSON string. Calls native code only for text with characters to escape. */
function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}

let lastTimeMs = 0;
let lastTime = new Date(0).toISOString();

/** Many records are accepted in the same millisecond. */
function timeOf(ms: number): string {
  if (ms !== lastTimeMs) {
    lastTime = new Date(ms).toISOString();
    lastTimeMs = ms;
  }
  return lastTime;
}

/**
 * Thrown for a value in the log that this release cannot read; holds the parts of the record's
 * identity that could be read.
 */
export class EventError extends StacklessError {
  override readonly name = 'EventError';
  readonly reason: 'undecodable' | 'unknown-version';
  readonly tenantId: string | undefined;
  readonly id: string | undefined;
  /** Whether the value is a JSON object, parts of which may be readable. */
  readonly isObject: boolean;

  constructor(reason: 'undecodable' | 'unknown-version', message: string, event?: JsonObject) {
    super(message);
    this.reason = reason;
    this.tenantId = typeof event?.tenantid === 'string' ? event.tenantid : undefined;
    this.isObject = event !== undefined;
    this.id = typeof event?.id === 'string' ? event.id : undefined;
  }
}

/**
 * Decodes a value that {@link encodeEvent} of this or a later v1 release wrote. Ignores unknown
 * members. Throws {@link EventError}.
 */
export function decodeEvent(bytes: Uint8Array, kind: Kind): AcceptedRecord {
  const event = readEnvelope(bytes);
  const type = TYPE.exec(text(event, 'type'));
  if (!type || !isKind(type[1]!)) throw new EventError('undecodable', 'type is unknown', event);
  if (type[2] !== '1')
    throw new EventError('unknown-version', `version ${type[2]} is not supported by this release`, event);
  if (type[1] !== kind)
    throw new EventError('undecodable', `a record of ${type[1]} in the topic of ${kind}`, event);
  const acceptedAtMs = Date.parse(text(event, 'time'));
  if (!Number.isFinite(acceptedAtMs)) throw new EventError('undecodable', 'time is not a timestamp', event);
  if (!isJsonObject(event.data)) throw new EventError('undecodable', 'data is not an object', event);
  return {
    kind,
    tenantId: text(event, 'tenantid'),
    id: text(event, 'id'),
    idGenerated: event.generatedid === true,
    entity: text(event, 'subject'),
    acceptedAtMs,
    requestId: typeof event.requestid === 'string' ? event.requestid : '',
    traceparent: typeof event.traceparent === 'string' ? event.traceparent : undefined,
    contentHash: typeof event.contenthash === 'string' ? event.contenthash : undefined,
    data: event.data,
  };
}

/** Reads the members of the envelope, which surround the data. Throws {@link EventError}. */
export function readEnvelope(bytes: Uint8Array): JsonObject {
  try {
    const event = readJson(bytes, {
      rawMembers: AUTOMATION_EVENT_RAW_MEMBERS,
      depthMax: EVENT_DEPTH_MAX,
      valuesMax: VALUES_MAX,
    });
    if (isJsonObject(event)) return event;
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    throw new EventError('undecodable', `the value ${error.message}`);
  }
  throw new EventError('undecodable', 'the value is not a JSON object');
}

function text(event: JsonObject, member: string): string {
  const value = event[member];
  if (typeof value !== 'string' || value === '')
    throw new EventError('undecodable', `${member} is missing`, event);
  return value;
}
