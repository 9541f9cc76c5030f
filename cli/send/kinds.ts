import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { systemClock } from '../../shared/clock.ts';
import { AUTOMATION_EVENT_RAW_MEMBERS } from '../../shared/contracts/event.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import type { ParsedRecord } from '../../shared/contracts/parsed.ts';
import { AGENT_RAW_MEMBERS, agentSchema, readAgentItem } from '../../shared/kinds/agent-metadata.ts';
import { automationEventSchema, readAutomationEvent } from '../../shared/kinds/automation-events.ts';
import {
  CONVERSATION_RAW_MEMBERS,
  conversationSchema,
  readConversation,
} from '../../shared/kinds/conversation-metadata.ts';
import { type CsvType, membersOf } from '../../shared/kinds/members.ts';
import {
  checkOccurredAt,
  MESSAGE_SENT_RAW_MEMBERS,
  messageSentSchema,
  readMessageSent,
} from '../../shared/kinds/message-sent.ts';
import { sampleAgent, sampleConversation, sampleEvent, sampleMessage } from './samples.ts';

export const SEND_KINDS = ['agents', 'conversations', 'messages', 'events'] as const;
export type SendKindName = (typeof SEND_KINDS)[number];

/** The type of the cells in a column of a CSV file. */
export type ColumnType = Exclude<CsvType, 'attributes'> | 'time';

/** A kind of record that `sluice send` can send. The gateway validates the records. */
export interface SendKind {
  readonly name: SendKindName;
  readonly singular: string;
  /** Describes the records of this kind in help texts. */
  readonly about: string;
  readonly path: string;
  /** Whether a request contains many records, in `items`. */
  readonly many: boolean;
  /** The member by which the gateway recognizes a record that is sent again. */
  readonly idMember: 'eventId' | 'messageId';
  /** Records with the same value of this member keep the order of the file. */
  readonly entityMember: string;
  /** Whether records with equal content count as one record, even in different files. */
  readonly onceForAll: boolean;
  readonly rawMembers: ReadonlySet<string>;
  /** Columns of a CSV file without `attributes.NAME`; a dot leads into an object. */
  readonly columns: Readonly<Record<string, ColumnType>>;
  /** Whether there may be columns `attributes.NAME`. */
  readonly attributes: boolean;
  /** Columns that every CSV file must have. */
  readonly requiredColumns: readonly string[];
  /** Validates a record as the gateway does. */
  read(record: JsonObject): ParsedRecord;
  /** Derives the id of a record that has none. */
  idOf?(identity: string, record: JsonObject): string;
  /** Returns sample number `n`, from 1. The same number always returns the same sample. */
  sample(n: number): JsonObject;
}

const AGENTS: SendKind = {
  name: 'agents',
  singular: 'agent',
  about: 'metadata about human agents',
  path: '/metadata-ingestion/v1/many-agent-metadata',
  many: true,
  idMember: 'eventId',
  entityMember: 'externalAgentId',
  onceForAll: false,
  rawMembers: AGENT_RAW_MEMBERS,
  ...columnsOf(agentSchema),
  read: readAgentItem,
  idOf: hexId,
  sample: sampleAgent,
};

const CONVERSATIONS: SendKind = {
  name: 'conversations',
  singular: 'conversation',
  about: 'metadata about conversations',
  path: '/metadata-ingestion/v1/single-convo-metadata',
  many: false,
  idMember: 'eventId',
  entityMember: 'externalConversationId',
  onceForAll: false,
  rawMembers: CONVERSATION_RAW_MEMBERS,
  ...columnsOf(conversationSchema),
  read: readConversation,
  idOf: hexId,
  sample: sampleConversation,
};

const MESSAGES: SendKind = {
  name: 'messages',
  singular: 'message',
  about: 'how messages were composed (MessageSent)',
  path: '/compose-assist/v1/analytics/many-message-sent',
  many: true,
  idMember: 'messageId',
  entityMember: 'messageId',
  onceForAll: true,
  rawMembers: MESSAGE_SENT_RAW_MEMBERS,
  ...columnsOf(messageSentSchema),
  read: (record) => checkOccurredAt(readMessageSent(record), systemClock.nowMs()),
  sample: sampleMessage,
};

const EVENTS: SendKind = {
  name: 'events',
  singular: 'event',
  about: 'what the automated agent did',
  path: '/automation-agent/v1/events',
  many: true,
  idMember: 'eventId',
  entityMember: 'externalConversationId',
  onceForAll: true,
  rawMembers: AUTOMATION_EVENT_RAW_MEMBERS,
  ...columnsOf(automationEventSchema),
  read: readAutomationEvent,
  idOf: ulidOf,
  sample: sampleEvent,
};

export const KIND_BY_NAME: Readonly<Record<SendKindName, SendKind>> = {
  agents: AGENTS,
  conversations: CONVERSATIONS,
  messages: MESSAGES,
  events: EVENTS,
};

/** Returns the columns of a CSV file for records with this schema. */
function columnsOf(schema: z.ZodType): Pick<SendKind, 'columns' | 'attributes' | 'requiredColumns'> {
  const members = membersOf(schema);
  const columns = members.flatMap(({ name, csvType, column }) => {
    if (csvType === 'attributes') return [];
    return [[name, column.type === 'bigint' ? ('time' as const) : csvType] as const];
  });
  return {
    columns: Object.fromEntries(columns),
    attributes: columns.length < members.length,
    requiredColumns: members.filter(({ isRequired }) => isRequired).map(({ name }) => name),
  };
}

function hexId(identity: string): string {
  return `send-${createHash('sha256').update(identity).digest('hex').slice(0, 40)}`;
}

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const TIME_BITS = 48n;
const RANDOM_BITS = 80n;

/**
 * Returns a ULID with the time of the event, in which a hash of the identity replaces the random
 * part.
 */
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
