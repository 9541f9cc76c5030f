import { createHash } from 'node:crypto';
import { AUTOMATION_EVENT_RAW_MEMBERS } from '../../shared/contracts/event.ts';
import { type JsonObject, NO_RAW_MEMBERS } from '../../shared/contracts/json.ts';
import { sampleAgent, sampleConversation, sampleEvent, sampleMessage } from './samples.ts';

export const SEND_KINDS = ['agents', 'conversations', 'messages', 'events'] as const;
export type SendKindName = (typeof SEND_KINDS)[number];

/** How a cell of a CSV file becomes a JSON value. A list is separated by `;`. */
export type ColumnType = 'text' | 'number' | 'list' | 'json';

/** What `sluice send` knows of a kind of records. Whether a record is valid is the gateway's to say. */
export interface SendKind {
  readonly name: SendKindName;
  /** What its records are, for people. */
  readonly about: string;
  readonly path: string;
  /** Whether a request carries `items`. */
  readonly many: boolean;
  /** The member that makes a record the same one when it is sent again. */
  readonly idMember: 'eventId' | 'messageId';
  /** Records with the same value here keep the order of the file. */
  readonly entityMember: string;
  /** Whether equal content is one record wherever it was sent: it says itself when it happened. */
  readonly onceForAll: boolean;
  readonly rawMembers: ReadonlySet<string>;
  /** Columns of a CSV file besides `attributes.NAME`; a dot leads into an object. */
  readonly columns: Readonly<Record<string, ColumnType>>;
  readonly attributes: boolean;
  /** Columns without which no line can be accepted. */
  readonly requiredColumns: readonly string[];
  /** The id of a record that brings none, from what identifies it. */
  idOf?(identity: string, record: JsonObject): string;
  /** Record number `n` (from 1) of the samples; the same each time. */
  sample(n: number): JsonObject;
}

const hexId = (identity: string) =>
  `send-${createHash('sha256').update(identity).digest('hex').slice(0, 40)}`;

const text = (...names: string[]) => Object.fromEntries(names.map((name) => [name, 'text' as const]));

const AGENTS: SendKind = {
  name: 'agents',
  about: 'metadata about human agents',
  path: '/metadata-ingestion/v1/many-agent-metadata',
  many: true,
  idMember: 'eventId',
  entityMember: 'externalAgentId',
  onceForAll: false,
  rawMembers: NO_RAW_MEMBERS,
  columns: {
    ...text('eventId', 'externalAgentId', 'startTs', 'lobId', 'lobName', 'groupId', 'groupName'),
    ...text('agentName', 'agentLocation', 'supervisorId', 'supervisorName', 'categoryLabel'),
    ...text('accountAccessLevel', 'vendor', 'jobTitle', 'jobRole', 'workShift', 'emailAddress'),
    languages: 'list',
    concurrency: 'number',
    ranking: 'number',
  },
  attributes: true,
  requiredColumns: ['externalAgentId'],
  idOf: hexId,
  sample: sampleAgent,
};

const CONVERSATIONS: SendKind = {
  name: 'conversations',
  about: 'metadata about conversations',
  path: '/metadata-ingestion/v1/single-convo-metadata',
  many: false,
  idMember: 'eventId',
  entityMember: 'externalConversationId',
  onceForAll: false,
  rawMembers: NO_RAW_MEMBERS,
  columns: {
    ...text('eventId', 'externalConversationId', 'lobId', 'lobName', 'groupId', 'groupName', 'campaign'),
    ...text('agentRoutingCode', 'deviceType', 'platform', 'companySubdivision', 'businessRule', 'entryType'),
    ...text('operatingSystem', 'browserType', 'browserVersion'),
    companySegment: 'list',
  },
  attributes: true,
  requiredColumns: ['externalConversationId'],
  idOf: hexId,
  sample: sampleConversation,
};

const MESSAGES: SendKind = {
  name: 'messages',
  about: 'how messages were composed (MessageSent)',
  path: '/compose-assist/v1/analytics/message-sent',
  many: false,
  idMember: 'messageId',
  entityMember: 'messageId',
  onceForAll: true,
  rawMembers: NO_RAW_MEMBERS,
  columns: {
    ...text('conversationId', 'messageId', 'initialSuggestionsId', 'selectedSuggestionText'),
    selectedSuggestionsId: 'text',
    augmentationType: 'list',
    numEdits: 'number',
    phraseAutocompletePresentedCt: 'number',
    selectedSuggestionIndex: 'number',
    timeToAction: 'number',
    craftingTime: 'number',
    dwellTime: 'number',
    phraseAutocompleteSelectedCt: 'number',
  },
  attributes: false,
  requiredColumns: ['messageId', 'augmentationType'],
  sample: sampleMessage,
};

const EVENTS: SendKind = {
  name: 'events',
  about: 'what the automated agent did',
  path: '/automation-agent/v1/events',
  many: true,
  idMember: 'eventId',
  entityMember: 'externalConversationId',
  onceForAll: true,
  rawMembers: AUTOMATION_EVENT_RAW_MEMBERS,
  columns: {
    ...text('eventId', 'conversationId', 'externalConversationId', 'type', 'occurredAt', 'currentTaskName'),
    ...text('reply.messageId', 'reply.text', 'transferToSystem.currentTaskName'),
    inputVariables: 'json',
    'transferToSystem.referenceVariables': 'json',
    'transferToSystem.transferVariables': 'json',
  },
  attributes: false,
  requiredColumns: ['conversationId', 'externalConversationId', 'type', 'occurredAt'],
  idOf: ulidOf,
  sample: sampleEvent,
};

export const KIND_BY_NAME: Readonly<Record<SendKindName, SendKind>> = {
  agents: AGENTS,
  conversations: CONVERSATIONS,
  messages: MESSAGES,
  events: EVENTS,
};

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const TIME_BITS = 48n;
const RANDOM_BITS = 80n;

/** A ULID whose time is the event's and whose random part is its identity. */
function ulidOf(identity: string, { occurredAt }: JsonObject): string {
  const parsedMs = typeof occurredAt === 'string' ? Date.parse(occurredAt) : Number.NaN;
  const timeMs = Number.isNaN(parsedMs) ? 0 : Math.max(0, parsedMs);
  const digest = createHash('sha256').update(identity).digest('hex');
  let bits =
    (BigInt.asUintN(Number(TIME_BITS), BigInt(timeMs)) << RANDOM_BITS) | BigInt(`0x${digest.slice(0, 20)}`);
  let id = '';
  for (let i = 0; i < 26; i++) {
    id = CROCKFORD[Number(bits & 31n)] + id;
    bits >>= 5n;
  }
  return id;
}
