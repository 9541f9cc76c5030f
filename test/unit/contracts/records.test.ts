import { describe, expect, it } from 'vitest';
import { readCredentials } from '../../../gateway/operations/authenticate/credentials.ts';
import { type JsonObject, writeJson } from '../../../shared/contracts/json.ts';
import type { Parsed } from '../../../shared/contracts/parsed.ts';
import { readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { readAutomationEvent } from '../../../shared/kinds/automation-events.ts';
import { readConversation } from '../../../shared/kinds/conversation-metadata.ts';
import { checkOccurredAt, readMessageSent } from '../../../shared/kinds/message-sent.ts';
import { bodyOf } from './records.ts';

const accepted = <R>(parsed: Parsed<R>) => {
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.details));
  return parsed;
};

const agent = { externalAgentId: 'a1' };
const message = { messageId: 'm1', augmentationType: ['FREEHAND'] };
const event = {
  conversationId: 'C1',
  externalConversationId: 'x1',
  type: 'processingStart',
  occurredAt: '2026-01-02T03:04:05.123456789Z',
};

describe('the readers of records', () => {
  it('keep the id of an invalid item only if the id is valid', () => {
    expect(readAgentItem({ eventId: 'e1' })).toMatchObject({ ok: false, id: 'e1' });
    expect(readAgentItem({ eventId: 'e 1' })).toMatchObject({ ok: false, id: undefined });
    expect(readAgentItem('x')).toMatchObject({ ok: false, id: undefined });
  });

  it('ignore unknown members and keep the known ones in schema order', () => {
    const { record } = accepted(
      readAgentItem(bodyOf('{"zzz":1,"agentName":"N","__proto__":{"x":1},"externalAgentId":"a"}')),
    );
    expect(writeJson(record as JsonObject)).toBe('{"externalAgentId":"a","agentName":"N"}');
  });

  it('store languages in lower case, and distinguish null from omitted for agents', () => {
    expect(accepted(readAgentItem({ ...agent, languages: ['EN-us'], lobId: null })).record).toEqual({
      ...agent,
      lobId: null,
      languages: ['en-us'],
    });
  });

  it('treat null as omitted for messages and events, including their objects', () => {
    expect(accepted(readMessageSent({ ...message, numEdits: null })).record).toEqual(message);
    const transfer = { ...event, type: 'transferToSystem', transferToSystem: { currentTaskName: null } };
    expect(accepted(readAutomationEvent(transfer)).record).toEqual({ ...transfer, transferToSystem: {} });
  });

  it('order messages by conversation, or by message without one', () => {
    expect(accepted(readMessageSent({ ...message, conversationId: 'c' })).entity).toBe('c');
    expect(accepted(readMessageSent({ ...message, conversationId: '' })).entity).toBe('m1');
  });
});

describe('the time of a MessageSent event', () => {
  const ACCEPTED_AT_MS = Date.UTC(2026, 0, 31, 12, 0, 0, 7);
  const problemOf = (occurredAt: string | null) => {
    const read = readMessageSent({ ...message, occurredAt });
    const checked = checkOccurredAt(read, ACCEPTED_AT_MS);
    if (checked.ok) expect(checked).toBe(read);
    return checked.ok ? undefined : { id: checked.id, details: checked.details };
  };

  it.each([
    ['7 days before the request', '2026-01-24T12:00:00.007Z', '2026-01-24T12:00:00.006999999Z'],
    ['5 minutes after it', '2026-01-31T12:05:00.007000000Z', '2026-01-31T12:05:00.007000001Z'],
    ['7 days before, with an offset', '2026-01-24T17:30:00.007+05:30', '2026-01-24T17:29:59+05:30'],
  ])('may be up to %s', (_, accepted, refused) => {
    expect(problemOf(accepted)).toBeUndefined();
    expect(problemOf(refused)).toEqual({
      id: 'm1',
      details: [
        { path: 'occurredAt', message: 'must be at most 7 days before and 5 minutes after the request' },
      ],
    });
  });

  it('may be omitted', () => {
    expect(problemOf(null)).toBeUndefined();
  });
});

describe('content hash', () => {
  const hash = (parsed: Parsed<object>) => accepted(parsed).contentHash;
  const agentHash = (members: string) => hash(readAgentItem(bodyOf(`{"externalAgentId":"a",${members}}`)));

  it('is the same for the same known content, whatever the order and the id', () => {
    const one = hash(
      readConversation(bodyOf('{"externalConversationId":"c","lobId":"l","eventId":"e1","unknown":1}')),
    );
    expect(one).toMatch(/^[0-9a-f]{64}$/);
    expect(
      hash(readConversation(bodyOf('{ "lobId":"l","eventId":"e2", "externalConversationId":"c" }'))),
    ).toBe(one);
  });

  it('distinguishes null from omitted for merge patches only', () => {
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
  ])('differs for %s and %s', (one, other) => {
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
  ])('is the same for %s and %s', (one, other) => {
    expect(agentHash(one)).toBe(agentHash(other));
  });

  it('treats null as omitted within automation events too', () => {
    const transfer = (members: object) =>
      hash(readAutomationEvent({ ...event, type: 'transferToSystem', ...members }));
    const least = transfer({ transferToSystem: {} });
    expect(transfer({ transferToSystem: { currentTaskName: null }, currentTaskName: null })).toBe(least);
    expect(transfer({ transferToSystem: { currentTaskName: '' } })).not.toBe(least);
  });

  it('of MessageSent without the members that were added later is that of the first release', () => {
    const first = {
      conversationId: 'c',
      ...message,
      augmentationType: ['AUTOSUGGEST', 'FREEHAND'],
      numEdits: 0,
      selectedSuggestionText: 'How can I help?',
      dwellTime: 0.5,
      phraseAutocompleteSelectedCt: 1,
    };
    const hashes = [
      first,
      { ...first, externalConversationId: null, occurredAt: null },
      { ...first, externalConversationId: 'chat-1' },
      { ...first, occurredAt: '2026-01-02T03:04:05Z' },
      { ...first, occurredAt: '2026-01-02T03:04:05.0Z' },
    ].map((record) => hash(readMessageSent(record)));
    expect(hashes[0]).toBe('edff54cfed5721c4a53d8954de752dffa3f52fb308ce3c37b89ae82bf9407c7b');
    expect(hashes[1]).toBe(hashes[0]);
    expect(new Set(hashes)).toHaveProperty('size', 4);
  });

  it('covers free-form objects by their bytes', () => {
    const withVariables = (text: string) =>
      hash(
        readAutomationEvent(
          bodyOf(
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
  const read = (text: string) => readCredentials(bodyOf(text), 'CONV1');

  it('may be any credential, are kept byte for byte, and have no id and no hash', () => {
    const parsed = accepted(
      read('{"customerExternalId":"u","streamId":"s","auth":{"body":{ "n":1.0 },"cookies":null}}'),
    );
    expect(parsed).toMatchObject({ id: undefined, contentHash: undefined, entity: 'CONV1' });
    expect(writeJson(parsed.record.auth)).toBe('{"body":{ "n":1.0 }}');
    expect(parsed.record.streamId).toBe('s');
  });

  it('may have a top-level token, which is read as auth.token', () => {
    expect(accepted(read('{"customerExternalId":"u","token":"t"}')).record.auth).toEqual({ token: 't' });
    expect(
      accepted(read('{"customerExternalId":"u","token":"t","auth":{"headers":{}}}')).record.auth,
    ).toMatchObject({ token: 't' });
  });
});
