import type { z } from 'zod';
import { credentialsSchema, readCredentials } from '../../../gateway/operations/authenticate/credentials.ts';
import {
  KEY_RATE_MAX,
  keySchema,
  OVERLAP_SECONDS_MAX,
  readKeyRequest,
  readRotationRequest,
  rotationSchema,
} from '../../../shared/contracts/api-keys.ts';
import { type JsonObject, RawJson } from '../../../shared/contracts/json.ts';
import { EVERY_SCOPE, SCOPES } from '../../../shared/contracts/scopes.ts';
import {
  endpointSchema,
  RETRY_SCHEDULES,
  readEndpointRequest,
} from '../../../shared/contracts/webhook-endpoints.ts';
import { agentSchema, readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import {
  AUTOMATION_EVENT_TYPES,
  automationEventSchema,
  readAutomationEvent,
} from '../../../shared/kinds/automation-events.ts';
import {
  conversationSchema,
  PLATFORMS,
  readConversation,
} from '../../../shared/kinds/conversation-metadata.ts';
import {
  AUGMENTATION_TYPES,
  messageSentSchema,
  readMessageSent,
} from '../../../shared/kinds/message-sent.ts';
import type { ReadResult } from './records.ts';

import {
  ATTRIBUTES,
  CONTROL,
  FREE_FORM,
  ID,
  integer,
  listOf,
  longerThan,
  oneOf,
  REQUIRED_ID,
  type Rule,
  SECONDS,
  string,
  TOKEN,
  text,
  timestamp,
  WORD_TEXT,
  word,
} from './rules.ts';

/** The schema and the reader of a request's body, or of one item. */
export interface Body {
  readonly schema: z.ZodObject;
  readonly read: (body: JsonObject) => ReadResult;
  readonly valid: object;
  /** The rule of each member; a dot leads into an object. */
  readonly members: Readonly<Record<string, Rule>>;
  /** The details of a body without a required member. */
  readonly required?: Readonly<Record<string, string>>;
}

const isRequired = (...members: readonly string[]) =>
  Object.fromEntries(members.map((member) => [member, `${member} is required`]));

/** The one table of the rules of all request members, apart from the conformance suite. */
export const BODIES: Readonly<Record<string, Body>> = {
  agents: {
    schema: agentSchema,
    read: readAgentItem,
    valid: { externalAgentId: 'a1' },
    required: { externalAgentId: ' agent id cannot be blank' },
    members: {
      eventId: word(256),
      // A blank id has a text of its own.
      externalAgentId: { ...REQUIRED_ID, refuses: [longerThan(256, '😀'), ['a\u0007b', CONTROL]] },
      startTs: timestamp(),
      lobId: ID,
      lobName: text(256),
      groupId: ID,
      groupName: text(256),
      agentName: text(256),
      agentLocation: text(256),
      supervisorId: ID,
      supervisorName: text(256),
      languages: listOf('en-US', 0, [
        [['de', 'en_us'], "must be a language tag: letters and digits, subtags separated by '-'", '[1]'],
      ]),
      concurrency: integer(0),
      categoryLabel: text(256),
      accountAccessLevel: text(256),
      ranking: integer(-2_147_483_648),
      vendor: text(256),
      jobTitle: text(256),
      jobRole: text(256),
      workShift: text(256),
      emailAddress: string(
        ['x@y.z'],
        [
          ['x y@y.z', 'must be an e-mail address such as name@example.org'],
          ['x@y', 'must be an e-mail address such as name@example.org'],
          longerThan(256),
        ],
      ),
      attributes: ATTRIBUTES,
    },
  },
  conversations: {
    schema: conversationSchema,
    read: readConversation,
    valid: { externalConversationId: 'c1' },
    required: isRequired('externalConversationId'),
    members: {
      eventId: word(256),
      externalConversationId: word(256),
      lobId: word(256),
      lobName: text(256),
      groupId: word(256),
      groupName: text(256),
      agentRoutingCode: word(256),
      campaign: word(256),
      deviceType: oneOf(['TABLET', 'PHONE', 'DESKTOP', 'WATCH', 'OTHER']),
      platform: oneOf(PLATFORMS),
      companySegment: listOf('s'.repeat(64), 0, [
        [['s'.repeat(65)], 'must be at most 64 characters', '[0]'],
        [['a', ''], WORD_TEXT, '[1]'],
      ]),
      companySubdivision: word(256),
      businessRule: text(256),
      entryType: word(256),
      operatingSystem: oneOf(['MAC_OS', 'LINUX', 'WINDOWS', 'ANDROID', 'IOS', 'OTHER']),
      browserType: word(64),
      browserVersion: string(
        ['1.2_3-4567890123'],
        [
          ['1.2_3-45678901234', 'must be at most 16 characters'],
          ['', "must be one or more letters, digits, '_', '.' or '-'"],
        ],
      ),
      attributes: ATTRIBUTES,
    },
  },
  'message-sent events': {
    schema: messageSentSchema,
    read: readMessageSent,
    valid: { messageId: 'm1', augmentationType: ['FREEHAND'] },
    required: isRequired('messageId', 'augmentationType'),
    members: {
      conversationId: ID,
      messageId: REQUIRED_ID,
      augmentationType: listOf('FLUENCY_UNDO', 1, [
        [['FREEHAND', 'x'], `must be one of ${AUGMENTATION_TYPES.join(', ')}`, '[1]'],
      ]),
      numEdits: integer(0),
      initialSuggestionsId: ID,
      phraseAutocompletePresentedCt: integer(0),
      selectedSuggestionText: text(16_384),
      selectedSuggestionsId: ID,
      selectedSuggestionIndex: integer(1),
      timeToAction: SECONDS,
      craftingTime: SECONDS,
      dwellTime: SECONDS,
      phraseAutocompleteSelectedCt: integer(0),
      externalConversationId: word(256),
      occurredAt: timestamp(),
    },
  },
  'automation events': {
    schema: automationEventSchema,
    read: readAutomationEvent,
    valid: {
      conversationId: 'C1',
      externalConversationId: 'x1',
      type: 'processingStart',
      occurredAt: '2026-01-02T03:04:05.123456789Z',
      reply: { messageId: 'm', text: '' },
      transferToSystem: {},
    },
    required: {
      ...isRequired(
        'conversationId',
        'externalConversationId',
        'occurredAt',
        'reply.messageId',
        'reply.text',
      ),
      type: `type must be one of ${AUTOMATION_EVENT_TYPES.join(', ')}`,
    },
    members: {
      eventId: string(
        ['01KB2Q5X3T9W1V7Y5Z8C4D6E2F'],
        [
          ['01kb2q5x3t9w1v7y5z8c4d6e2f', 'must be a ULID (26 upper-case characters)'],
          ['', 'must be a ULID (26 upper-case characters)'],
          longerThan(26),
        ],
      ),
      conversationId: REQUIRED_ID,
      externalConversationId: REQUIRED_ID,
      type: oneOf(AUTOMATION_EVENT_TYPES),
      occurredAt: timestamp(),
      currentTaskName: text(256),
      inputVariables: FREE_FORM,
      'reply.messageId': REQUIRED_ID,
      'reply.text': text(16_384),
      'transferToSystem.referenceVariables': FREE_FORM,
      'transferToSystem.transferVariables': FREE_FORM,
      'transferToSystem.currentTaskName': text(256),
    },
  },
  credentials: {
    schema: credentialsSchema,
    read: (body) => readCredentials(body, 'CONV1'),
    // Each of the two is enough, so that every member may be omitted.
    valid: { customerExternalId: 'u', auth: { body: {}, cookies: {} } },
    required: isRequired('customerExternalId'),
    members: {
      customerExternalId: REQUIRED_ID,
      token: TOKEN,
      'auth.token': TOKEN,
      'auth.body': FREE_FORM,
      'auth.cookies': FREE_FORM,
      'auth.headers': FREE_FORM,
      streamId: ID,
    },
  },
  'webhook endpoints': {
    schema: endpointSchema,
    // The admin listener reads headers as values.
    read: ({ headers, ...body }) =>
      readEndpointRequest({
        ...body,
        headers: headers instanceof RawJson ? JSON.parse(headers.text) : headers,
      }),
    valid: { url: 'https://example.org/' },
    required: isRequired('url'),
    members: {
      // Which addresses it may name is checked elsewhere.
      url: string(
        ['https://example.org/', 'x'.repeat(2048)],
        [longerThan(2048), ['a\u0007b', CONTROL], ['', 'must not be blank'], [' ', 'must not be blank']],
      ),
      eventTypes: listOf(
        'automation.reply',
        1,
        [[['automation.repli'], 'is not a known type: the nearest is automation.reply', '[0]']],
        'must have at least one entry; omit it for all types',
      ),
      description: string(['', 'x'.repeat(1024)], [longerThan(1024), ['a\u0007b', CONTROL]]),
      headers: {
        accepts: [{}, { Authorization: 'Bearer x' }],
        refuses: [
          [{ Host: 'x' }, 'is a header that Sluice sets itself', '.Host'],
          [{ 'a b': 'x' }, "must have names of at most 64 letters, digits, '-' or '_'"],
        ],
        otherTypes: [1, 'x', [], true],
        ofOtherType: 'must be an object',
      },
      ratePerSecond: integer(1, 1000),
      retrySchedule: oneOf(RETRY_SCHEDULES),
      secret: string(
        [`whsec_${'a'.repeat(32)}`, `whsec_${Buffer.alloc(64, 1).toString('base64')}`],
        [longerThan(128), [`whsec_${'a'.repeat(28)}`, 'must be whsec_ and the base64 of 24 to 64 bytes']],
      ),
    },
  },
  'API keys': {
    schema: keySchema,
    read: (body) => readKeyRequest(body, Date.UTC(2026, 0, 1)),
    valid: { scopes: ['*'] },
    required: isRequired('scopes'),
    members: {
      name: string(
        ['n', 'ü'.repeat(100)],
        [longerThan(100), ['', 'must not be blank'], [' ', 'must not be blank'], ['a\nb', CONTROL]],
      ),
      scopes: listOf('events:read', 1, [
        [['everything'], `must be one of ${[EVERY_SCOPE, ...SCOPES].join(', ')}`, '[0]'],
      ]),
      expiresAt: timestamp([['2026-01-01T00:00:00Z', 'must be in the future']]),
      rate: integer(1, KEY_RATE_MAX),
    },
  },
  'rotations of API keys': {
    schema: rotationSchema,
    read: readRotationRequest,
    valid: {},
    members: { overlapSeconds: integer(0, OVERLAP_SECONDS_MAX) },
  },
};
