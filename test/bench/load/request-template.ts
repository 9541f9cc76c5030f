import { randomBytes } from 'node:crypto';
import { PATHS } from '../../../gateway/paths.ts';
import { writeJson } from '../../../shared/contracts/json.ts';
import { agent, automationReply, credentials, messageSent } from './records.ts';

/**
 * What a request sends: one MessageSent event, the credentials of one conversation, many agents, many
 * MessageSent events, or many replies of the automated agent.
 */
export type Operation = 'message-sent' | 'credentials' | keyof typeof LISTS;

export interface TemplateOptions {
  readonly operation: Operation;
  /** Records per request; 1 for `message-sent` and `credentials`. */
  readonly records: number;
  readonly apiKeyId: string;
  readonly secret: string;
  /** Number of the first entity, so that callers of one tenant begin with different ones. */
  readonly firstEntity: number;
}

/** Conversations or agents per tenant. */
export const ENTITIES = 1000;
const ID_LENGTH = 26;
const TIME_LENGTH = 10;
const TAG_LENGTH = 6;
const ENTITY_DIGITS = 6;
const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const ZERO = 48;
const NINE = 57;

/**
 * The bytes of a request, which is built once. Before each send, only the ids are replaced: the
 * bytes of a request must not be changed before its answer has arrived.
 */
export class RequestTemplate {
  readonly bytes: Buffer;
  readonly records: number;
  readonly bodyLength: number;
  private readonly idOffsets: number[];
  private readonly entityOffsets: number[];
  private entity: number;

  constructor(options: TemplateOptions) {
    const { path, body } = bodyOf(options);
    const head = [
      `POST ${path} HTTP/1.1`,
      'host: 127.0.0.1',
      `service-api-id: ${options.apiKeyId}`,
      `service-api-secret: ${options.secret}`,
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
      '\r\n',
    ].join('\r\n');
    this.bytes = Buffer.from(head + body);
    this.records = options.records;
    this.bodyLength = Buffer.byteLength(body);
    const numbers = Array.from({ length: options.records }, (_, i) => i);
    this.idOffsets = numbers.map((i) => this.bytes.indexOf(idMark(i)));
    this.entityOffsets = numbers.map((i) => this.bytes.indexOf(entityMark(i)) + 1);
    this.entity = options.firstEntity;
  }

  /** Gives every record a new id and the next entity. */
  renew(ids: IdSequence): void {
    for (const offset of this.idOffsets) ids.writeNext(this.bytes, offset);
    for (const offset of this.entityOffsets) {
      writeDigits(this.bytes, offset, ENTITY_DIGITS, this.entity % ENTITIES);
      this.entity += 1;
    }
  }

  /** Returns the id and the entity of the request's first record. */
  first(): { readonly id: string; readonly entity: string } {
    const text = (offset: number, length: number) => this.bytes.toString('latin1', offset, offset + length);
    return {
      id: text(this.idOffsets[0]!, ID_LENGTH),
      entity: text(this.entityOffsets[0]! - 1, ENTITY_DIGITS + 1),
    };
  }
}

/**
 * Ids in the form of ULIDs: the time, a tag of this process, and a number. Unique within a run, and
 * increasing.
 */
export class IdSequence {
  private readonly id = Buffer.alloc(ID_LENGTH, '0');
  private timeMs = 0;

  constructor() {
    const tag = [...randomBytes(TAG_LENGTH)].map((byte) => CROCKFORD[byte % CROCKFORD.length]).join('');
    this.id.write(tag, TIME_LENGTH);
  }

  writeNext(target: Buffer, offset: number): void {
    const nowMs = Date.now();
    if (nowMs !== this.timeMs) this.writeTime(nowMs);
    let digit = ID_LENGTH - 1;
    while (this.id[digit] === NINE) this.id[digit--] = ZERO;
    this.id[digit]! += 1;
    this.id.copy(target, offset);
  }

  private writeTime(nowMs: number): void {
    this.timeMs = nowMs;
    let left = nowMs;
    for (let i = TIME_LENGTH - 1; i >= 0; i--) {
      this.id[i] = CROCKFORD.charCodeAt(left % CROCKFORD.length);
      left = Math.floor(left / CROCKFORD.length);
    }
  }
}

function bodyOf({ operation, records }: TemplateOptions): { readonly path: string; readonly body: string } {
  if (operation === 'message-sent') {
    return { path: PATHS.messageSent, body: writeJson(messageSent(idMark(0), entityMark(0))) };
  }
  if (operation === 'credentials') {
    const path = PATHS.authenticate.replace(':conversationId', entityMark(0));
    return { path, body: writeJson(credentials(idMark(0))) };
  }
  const { path, itemOf } = LISTS[operation];
  const items = Array.from({ length: records }, (_, i) => itemOf(idMark(i), entityMark(i)));
  return { path, body: writeJson({ items }) };
}

const LISTS = {
  agents: { path: PATHS.manyAgentMetadata, itemOf: agent },
  messages: { path: PATHS.manyMessageSent, itemOf: messageSent },
  'automation-events': { path: PATHS.automationEvents, itemOf: automationReply },
};

/** Texts that are replaced, as long as what replaces them. */
const idMark = (i: number) => `I${String(i).padStart(ID_LENGTH - 1, '-')}`;
const entityMark = (i: number) => `E${String(i).padStart(ENTITY_DIGITS, '-')}`;

function writeDigits(target: Buffer, offset: number, digits: number, number: number): void {
  let left = number;
  for (let i = offset + digits - 1; i >= offset; i--) {
    target[i] = ZERO + (left % 10);
    left = Math.floor(left / 10);
  }
}
