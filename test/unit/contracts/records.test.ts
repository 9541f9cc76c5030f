import { describe, expect, it } from 'vitest';
import { readItems } from '../../../gateway/operations/batch.ts';
import { AUTOMATION_EVENT_RAW_MEMBERS } from '../../../shared/contracts/event.ts';
import { type JsonObject, type JsonValue, writeJson } from '../../../shared/contracts/json.ts';
import type { Parsed } from '../../../shared/contracts/parsed.ts';
import { readJson } from '../../../shared/contracts/read-json.ts';
import { readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { readAutomationEvent } from '../../../shared/kinds/automation-events.ts';
import { readConversation } from '../../../shared/kinds/conversation-metadata.ts';
import { CREDENTIALS_RAW_MEMBERS, readCredentials } from '../../../shared/kinds/credentials.ts';
import { readMessageSent } from '../../../shared/kinds/message-sent.ts';

type Reader = (value: JsonValue) => Parsed<object>;

const RAW_MEMBERS = new Set([...CREDENTIALS_RAW_MEMBERS, ...AUTOMATION_EVENT_RAW_MEMBERS]);
const json = (text: string) => readJson(Buffer.from(text), { rawMembers: RAW_MEMBERS });
const details = (parsed: Parsed<object>) =>
  parsed.ok ? 'accepted' : parsed.details.map(({ path, message }) => `${path} ${message}`).join('; ');
const accepted = <R>(parsed: Parsed<R>) => {
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.details));
  return parsed;
};

const agent = { externalAgentId: 'a1' };
const conversation = { externalConversationId: 'c1' };
const message = { messageId: 'm1', augmentationType: ['FREEHAND'] };
const event = {
  conversationId: 'C1',
  externalConversationId: 'x1',
  type: 'processingStart',
  occurredAt: '2026-01-02T03:04:05.123456789Z',
};

/** Each member with a value at its limit, and a value past it with the message. */
const FIELD_RULES: [string, Reader, object, string, JsonValue, JsonValue, string][] = [
  [
    'agent',
    readAgentItem,
    agent,
    'eventId',
    'A_z-9'.padEnd(256, '0'),
    'a.b',
    "must be one or more letters, digits, '_' or '-'",
  ],
  ['agent', readAgentItem, agent, 'eventId', null, 'e'.repeat(257), 'must be at most 256 characters'],
  [
    'agent',
    readAgentItem,
    agent,
    'externalAgentId',
    '😀'.repeat(256),
    '😀'.repeat(257),
    'must be at most 256 characters',
  ],
  [
    'agent',
    readAgentItem,
    agent,
    'externalAgentId',
    'a b',
    'a\u0007b',
    'must not contain control characters',
  ],
  ['agent', readAgentItem, agent, 'agentName', null, 7, 'must be a string'],
  ['agent', readAgentItem, agent, 'agentName', '', 'x\u0000', 'must not contain U+0000'],
  [
    'agent',
    readAgentItem,
    agent,
    'agentName',
    '\ud83d\ude00',
    '\ud83d',
    'must not contain an unpaired surrogate',
  ],
  [
    'agent',
    readAgentItem,
    agent,
    'concurrency',
    2147483647,
    2147483648,
    'must be a whole number from 0 to 2147483647',
  ],
  ['agent', readAgentItem, agent, 'concurrency', 0, -1, 'must be a whole number from 0 to 2147483647'],
  [
    'agent',
    readAgentItem,
    agent,
    'ranking',
    -2147483648,
    -2147483649,
    'must be a whole number from -2147483648 to 2147483647',
  ],
  ['agent', readAgentItem, agent, 'ranking', 1, 1.5, 'must be a whole number from -2147483648 to 2147483647'],
  [
    'agent',
    readAgentItem,
    agent,
    'ranking',
    null,
    '1',
    'must be a whole number from -2147483648 to 2147483647',
  ],
  ['agent', readAgentItem, agent, 'languages', ['en-us', 'de'], 'en', 'must be an array'],
  [
    'agent',
    readAgentItem,
    agent,
    'languages',
    Array(100).fill('en'),
    Array(101).fill('en'),
    'must have at most 100 entries',
  ],
  [
    'agent',
    readAgentItem,
    agent,
    'emailAddress',
    'x@y.z',
    'x y@y.z',
    'must be an e-mail address such as name@example.org',
  ],
  [
    'agent',
    readAgentItem,
    agent,
    'startTs',
    '2026-02-28T23:59:59.123456789+23:59',
    '2026-02-29T00:00:00Z',
    'must be an RFC 3339 timestamp with offset, at most nine fraction digits, from 1678 to 2261',
  ],
  [
    'agent',
    readAgentItem,
    agent,
    'startTs',
    null,
    '2026-01-01T00:00:00',
    'must be an RFC 3339 timestamp with offset, at most nine fraction digits, from 1678 to 2261',
  ],
  [
    'agent',
    readAgentItem,
    agent,
    'startTs',
    '2026-01-01t00:00:00z',
    '2026-01-01T00:00:00.1234567890Z',
    'must be an RFC 3339 timestamp with offset, at most nine fraction digits, from 1678 to 2261',
  ],
  [
    'agent',
    readAgentItem,
    agent,
    'attributes',
    Array(10).fill({ name: 'n'.repeat(256), value: 'v'.repeat(1024) }),
    Array(11).fill({ name: 'n', value: '' }),
    'must have at most 10 entries',
  ],
  [
    'conversation',
    readConversation,
    conversation,
    'externalConversationId',
    'A-z_0'.repeat(51),
    'ü',
    "must be one or more letters, digits, '_' or '-'",
  ],
  [
    'conversation',
    readConversation,
    conversation,
    'externalConversationId',
    'x',
    '',
    "must be one or more letters, digits, '_' or '-'",
  ],
  [
    'conversation',
    readConversation,
    conversation,
    'lobId',
    'x'.repeat(256),
    'x'.repeat(257),
    'must be at most 256 characters',
  ],
  [
    'conversation',
    readConversation,
    conversation,
    'lobId',
    'x',
    'x\n',
    "must be one or more letters, digits, '_' or '-'",
  ],
  [
    'conversation',
    readConversation,
    conversation,
    'deviceType',
    'WATCH',
    'watch',
    'must be one of TABLET, PHONE, DESKTOP, WATCH, OTHER',
  ],
  [
    'conversation',
    readConversation,
    conversation,
    'browserVersion',
    '1.2_3-4567890123',
    '1.2_3-45678901234',
    'must be at most 16 characters',
  ],
  [
    'conversation',
    readConversation,
    conversation,
    'browserType',
    'b'.repeat(64),
    'b'.repeat(65),
    'must be at most 64 characters',
  ],
  ['message', readMessageSent, message, 'messageId', 'm:1', ' ', 'must not be blank'],
  [
    'message',
    readMessageSent,
    message,
    'augmentationType',
    Array(100).fill('FLUENCY_UNDO'),
    [],
    'must have at least one entry',
  ],
  [
    'message',
    readMessageSent,
    message,
    'augmentationType',
    ['FREEHAND', 'FREEHAND'],
    null,
    'must be an array',
  ],
  [
    'message',
    readMessageSent,
    message,
    'numEdits',
    1.0,
    2 ** 53,
    'must be a whole number from 0 to 2147483647',
  ],
  [
    'message',
    readMessageSent,
    message,
    'selectedSuggestionIndex',
    1,
    0,
    'must be a whole number from 1 to 2147483647',
  ],
  [
    'message',
    readMessageSent,
    message,
    'selectedSuggestionText',
    '😀'.repeat(16_384),
    't'.repeat(16_385),
    'must be at most 16384 characters',
  ],
  ['message', readMessageSent, message, 'dwellTime', 0.25, -0.1, 'must be a number of seconds, 0 or more'],
  [
    'message',
    readMessageSent,
    message,
    'timeToAction',
    1e300,
    Number.POSITIVE_INFINITY,
    'must be a number of seconds, 0 or more',
  ],
  [
    'event',
    readAutomationEvent,
    event,
    'eventId',
    '01KB2Q5X3T9W1V7Y5Z8C4D6E2F',
    '01kb2q5x3t9w1v7y5z8c4d6e2f',
    'must be a ULID (26 upper-case characters)',
  ],
  ['event', readAutomationEvent, event, 'conversationId', 'C', '', 'must not be blank'],
  ['event', readAutomationEvent, event, 'inputVariables', null, 'x', 'must be an object'],
];

describe('field rules', () => {
  it.each(FIELD_RULES)('%s: %5$s', (_, read, base, member, good, bad, problem) => {
    expect(details(read({ ...base, [member]: good } as JsonObject))).toBe('accepted');
    expect(details(read({ ...base, [member]: bad } as JsonObject))).toBe(`${member} ${problem}`);
  });

  it.each([
    [
      'languages',
      { ...agent, languages: ['en_us'] },
      readAgentItem,
      "languages[0] must be a language tag: letters and digits, subtags separated by '-'",
    ],
    [
      'attributes',
      { ...agent, attributes: [{ name: '', value: 'v'.repeat(1025) }] },
      readAgentItem,
      'attributes[0].name must not be empty; attributes[0].value must be at most 1024 characters',
    ],
    [
      'attributes',
      { ...agent, attributes: [{ name: 'n' }] },
      readAgentItem,
      'attributes[0].value is required',
    ],
    [
      'companySegment',
      { ...conversation, companySegment: ['s'.repeat(65)] },
      readConversation,
      'companySegment[0] must be at most 64 characters',
    ],
    ['augmentationType', { messageId: 'm' }, readMessageSent, 'augmentationType is required'],
    ['reply', { ...event, type: 'reply' }, readAutomationEvent, 'reply is required when type is reply'],
    [
      'reply',
      { ...event, type: 'reply', reply: { messageId: 'm' } },
      readAutomationEvent,
      'reply.text is required',
    ],
  ] as [string, JsonObject, Reader, string][])('names the place within %s', (_, value, read, problem) => {
    expect(details(read(value))).toBe(problem);
  });

  it.each([{}, { externalAgentId: '' }, { externalAgentId: ' \t' }, { externalAgentId: null }])(
    'says "agent id cannot be blank" for %j',
    (item) => expect(details(readAgentItem(item))).toBe(' agent id cannot be blank'),
  );

  it('refuses an integer that is one only after rounding, and takes it as seconds', () => {
    expect(
      details(
        readMessageSent(
          json('{"messageId":"m","augmentationType":["FREEHAND"],"numEdits":1.00000000000000000001}'),
        ),
      ),
    ).toMatch(/^numEdits must be a whole number/);
    expect(
      details(
        readMessageSent(
          json('{"messageId":"m","augmentationType":["FREEHAND"],"dwellTime":1.00000000000000000001}'),
        ),
      ),
    ).toBe('accepted');
  });

  it('keeps the id of an item that fails only where the id is valid', () => {
    expect(readAgentItem({ eventId: 'e1' })).toMatchObject({ ok: false, id: 'e1' });
    expect(readAgentItem({ eventId: 'e 1' })).toMatchObject({ ok: false, id: undefined });
    expect(readAgentItem('x')).toMatchObject({ ok: false, id: undefined });
  });

  it('ignores unknown members and keeps the known ones in schema order', () => {
    const { record } = accepted(
      readAgentItem(json('{"zzz":1,"agentName":"N","__proto__":{"x":1},"externalAgentId":"a"}')),
    );
    expect(writeJson(record as JsonObject)).toBe('{"externalAgentId":"a","agentName":"N"}');
  });

  it('stores languages in lower case and keeps null apart from omitted for agents', () => {
    expect(accepted(readAgentItem({ ...agent, languages: ['EN-us'], lobId: null })).record).toEqual({
      ...agent,
      lobId: null,
      languages: ['en-us'],
    });
  });

  it('treats null as omitted for messages and events, within their objects too', () => {
    expect(accepted(readMessageSent({ ...message, numEdits: null })).record).toEqual(message);
    const transfer = { ...event, type: 'transferToSystem', transferToSystem: { currentTaskName: null } };
    expect(accepted(readAutomationEvent(transfer)).record).toEqual({ ...transfer, transferToSystem: {} });
  });

  it('takes 1 to 1000 items', () => {
    const outcome = (body: JsonObject) => {
      const items = readItems(body);
      return items.ok ? items.items.length : items.details[0]?.message;
    };
    expect(outcome({ items: Array(1000).fill({}) })).toBe(1000);
    expect(outcome({ items: Array(1001).fill({}) })).toBe('must have at most 1000 entries');
    expect(outcome({ items: [] })).toBe('must have at least one entry');
    expect(outcome({ items: {} })).toBe('must be an array');
    expect(outcome({ items: null })).toBe('must be an array');
    expect(outcome({})).toBe('is required');
  });

  it('orders messages by conversation, or by themselves where they have none', () => {
    expect(accepted(readMessageSent({ ...message, conversationId: 'c' })).entity).toBe('c');
    expect(accepted(readMessageSent({ ...message, conversationId: '' })).entity).toBe('m1');
  });
});

describe('content hash', () => {
  const hash = (parsed: Parsed<object>) => accepted(parsed).contentHash;
  const agentHash = (members: string) => hash(readAgentItem(json(`{"externalAgentId":"a",${members}}`)));

  it('is the same for the same known content, whatever the order and the id', () => {
    const one = hash(
      readConversation(json('{"externalConversationId":"c","lobId":"l","eventId":"e1","unknown":1}')),
    );
    expect(one).toMatch(/^[0-9a-f]{64}$/);
    expect(hash(readConversation(json('{ "lobId":"l","eventId":"e2", "externalConversationId":"c" }')))).toBe(
      one,
    );
  });

  it('tells null from omitted for merge patches only', () => {
    expect(hash(readAgentItem({ ...agent, lobId: null }))).not.toBe(hash(readAgentItem(agent)));
    expect(hash(readMessageSent({ ...message, numEdits: null }))).toBe(hash(readMessageSent(message)));
  });

  it('does not apply defaults or the lower case of languages', () => {
    expect(hash(readMessageSent({ ...message, numEdits: 0 }))).not.toBe(hash(readMessageSent(message)));
    expect(hash(readAgentItem({ ...agent, languages: ['EN'] }))).not.toBe(
      hash(readAgentItem({ ...agent, languages: ['en'] })),
    );
  });

  it.each([
    ['"startTs":"2026-01-01T00:00:00Z"', '"startTs":"2026-01-01T00:00:00+00:00"'],
    ['"startTs":"2026-01-01T00:00:00Z"', '"startTs":"2026-01-01T00:00:00.000Z"'],
    ['"startTs":"2026-01-01T00:00:00Z"', '"startTs":"2026-01-01T01:00:00+01:00"'],
    ['"agentName":""', '"agentName":null'],
    ['"lobId":"l"', '"lobId":"l "'],
    ['"languages":["en","de"]', '"languages":["de","en"]'],
  ])('takes %s and %s for two contents', (one, other) => {
    expect(agentHash(one)).not.toBe(agentHash(other));
  });

  it.each([
    ['"ranking":3', '"ranking":3.0'],
    ['"ranking":3', '"ranking":0.3e1'],
    ['"agentName":"A"', '"agentName":"\\u0041"'],
    ['"agentName":"A","ranking":3', '"ranking" : 3 , "agentName" : "A"'],
    ['"agentName":"A"', '"agentName":"B","agentName":"A"'],
    ['"agentName":"A"', '"agentName":"A","agentNme":"B"'],
    ['"attributes":[{"name":"n","value":"v"}]', '"attributes":[{"value":"v","name":"n","more":1}]'],
  ])('takes %s and %s for one content', (one, other) => {
    expect(agentHash(one)).toBe(agentHash(other));
  });

  it('takes null for omitted within automation events too', () => {
    const transfer = (members: object) =>
      hash(readAutomationEvent({ ...event, type: 'transferToSystem', ...members }));
    const least = transfer({ transferToSystem: {} });
    expect(transfer({ transferToSystem: { currentTaskName: null }, currentTaskName: null })).toBe(least);
    expect(transfer({ transferToSystem: { currentTaskName: '' } })).not.toBe(least);
  });

  it('takes free-form objects by their bytes', () => {
    const withVariables = (text: string) =>
      hash(
        readAutomationEvent(
          json(
            `{"conversationId":"C","externalConversationId":"x","type":"reply","reply":{"messageId":"m","text":""},"occurredAt":"2026-01-01T00:00:00Z","inputVariables":${text}}`,
          ),
        ),
      );
    expect(withVariables('{"n":9007199254740993}')).not.toBe(withVariables('{"n":9007199254740992}'));
    expect(withVariables('{"n":1.0}')).not.toBe(withVariables('{"n":1}'));
    expect(withVariables('{"a":1,"b":2}')).not.toBe(withVariables('{"b":2,"a":1}'));
    expect(withVariables('{ "n":1}')).not.toBe(withVariables('{"n":1}'));
  });
});

describe('credentials', () => {
  const read = (text: string) => readCredentials(json(text), 'CONV1');

  it('takes any credential, keeps free-form ones byte for byte, and has no id and no hash', () => {
    const parsed = accepted(
      read('{"customerExternalId":"u","streamId":"s","auth":{"body":{ "n":1.0 },"cookies":null}}'),
    );
    expect(parsed).toMatchObject({ id: undefined, contentHash: undefined, entity: 'CONV1' });
    expect(writeJson(parsed.record.auth)).toBe('{"body":{ "n":1.0 }}');
    expect(parsed.record.streamId).toBe('s');
  });

  it('reads a top-level token as auth.token', () => {
    expect(accepted(read('{"customerExternalId":"u","token":"t"}')).record.auth).toEqual({ token: 't' });
    expect(
      accepted(read('{"customerExternalId":"u","token":"t","auth":{"headers":{}}}')).record.auth,
    ).toMatchObject({ token: 't' });
  });

  it.each([
    ['{"customerExternalId":"u"}', 'auth must hold at least one of token, body, cookies and headers'],
    [
      '{"customerExternalId":"u","auth":{}}',
      'auth must hold at least one of token, body, cookies and headers',
    ],
    [
      '{"customerExternalId":"u","token":"a","auth":{"token":"b"}}',
      'token is the short form of auth.token: send one of them',
    ],
    ['{"token":"a"}', 'customerExternalId is required'],
    ['{"customerExternalId":"u","auth":"x"}', 'auth must be an object'],
    ['{"customerExternalId":"u","auth":{"body":[]}}', 'auth.body must be an object'],
    ['{"customerExternalId":"u","auth":{"body":{"x":"\\u0000"}}}', 'auth.body must not contain U+0000'],
  ])('refuses %s', (text, problem) => expect(details(read(text))).toBe(problem));
});
