import { describe, expect, it } from 'vitest';
import { readItems } from '../../../gateway/operations/batch.ts';
import type { JsonObject } from '../../../shared/contracts/json.ts';
import { readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { membersOf } from '../../../shared/kinds/members.ts';
import { readMessageSent } from '../../../shared/kinds/message-sent.ts';
import { BODIES, type Body } from './field-rules.ts';
import { bodyOf, detailsOf } from './records.ts';

/** Returns the result of reading the valid body with one member replaced. */
function replaced({ valid, read }: Body, member: string, value: unknown): string {
  return detailsOf(read(bodyOf(JSON.stringify(withMember(valid, member, value)))));
}

function withMember(object: object, path: string, value: unknown): object {
  const [name, inner] = path.split('.') as [keyof typeof object, string | undefined];
  return { ...object, [name]: inner === undefined ? value : withMember(object[name], inner, value) };
}

describe.each(Object.entries(BODIES))('the rules of %s', (_kind, body) => {
  const { schema, members, required = {} } = body;

  it('are those of every member', () => {
    expect(Object.keys(members).sort()).toEqual(
      membersOf(schema)
        .map(({ name }) => name)
        .sort(),
    );
  });

  it.each(Object.entries(members))(
    '%s accepts values up to its limits, and refuses others',
    (member, rule) => {
      const answers = (values: readonly unknown[]) =>
        values.map((value) => [value, replaced(body, member, value)]);
      expect(answers(rule.accepts)).toEqual(rule.accepts.map((value) => [value, 'accepted']));
      const refused = rule.refuses.map(([value, message, at = '']) => [value, `${member}${at} ${message}`]);
      expect(answers(rule.refuses.map(([value]) => value))).toEqual(refused);
      const otherTypes = rule.otherTypes.map((value) => [value, `${member} ${rule.ofOtherType}`]);
      expect(answers(rule.otherTypes)).toEqual(otherTypes);
    },
  );

  it.each(Object.entries(members))('%s may be omitted or null, unless it is required', (member, rule) => {
    const missing = required[member];
    expect(replaced(body, member, undefined)).toBe(missing ?? 'accepted');
    const ifNull = missing?.endsWith(' is required') ? `${member} ${rule.ofOtherType}` : missing;
    expect(replaced(body, member, null)).toBe(ifNull ?? 'accepted');
  });
});

describe('rules of several members', () => {
  const { credentials, 'automation events': events } = BODIES;
  const without = 'auth must hold at least one of token, body, cookies and headers';

  it.each([
    ['{"customerExternalId":"u"}', without],
    ['{"customerExternalId":"u","auth":null}', without],
    ['{"customerExternalId":"u","auth":{}}', without],
    [
      '{"customerExternalId":"u","token":"a","auth":{"token":"b"}}',
      'token is the short form of auth.token: send one of them',
    ],
    ['{"customerExternalId":"u","auth":"x"}', 'auth must be an object'],
    ['{"token":"a"}', 'customerExternalId is required'],
  ])('refuse the credentials %s', (text, problem) => {
    expect(detailsOf(credentials!.read(bodyOf(text)))).toBe(problem);
  });

  it('require the reply of an event of type reply', () => {
    const event = { ...events!.valid, type: 'reply' };
    const answer = (reply: unknown) => detailsOf(events!.read({ ...event, reply } as JsonObject));
    expect(answer({ messageId: 'm', text: '' })).toBe('accepted');
    expect(answer(undefined)).toBe('reply is required when type is reply');
    expect(answer(null)).toBe('reply is required when type is reply');
    expect(answer([])).toBe('reply must be an object');
    expect(answer({ messageId: 'm' })).toBe('reply.text is required');
  });
});

it.each([{}, { externalAgentId: '' }, { externalAgentId: ' \t' }, { externalAgentId: null }])(
  'an agent is refused with "agent id cannot be blank" for %j',
  (item) => expect(detailsOf(readAgentItem(item))).toBe(' agent id cannot be blank'),
);

it('an agent is refused with every problem of an attribute', () => {
  const item = { externalAgentId: 'a', attributes: [{ name: '', value: 'v'.repeat(1025) }] };
  expect(detailsOf(readAgentItem(item))).toBe(
    'attributes[0].name must not be empty; attributes[0].value must be at most 1024 characters',
  );
});

it('an integer is refused if it is one only after rounding, and accepted as seconds', () => {
  const answer = (member: string, number: string) =>
    detailsOf(
      readMessageSent(bodyOf(`{"messageId":"m","augmentationType":["FREEHAND"],"${member}":${number}}`)),
    );
  expect(answer('numEdits', '1.00000000000000000001')).toMatch(/^numEdits must be a whole number/);
  expect(answer('dwellTime', '1.00000000000000000001')).toBe('accepted');
  expect(answer('dwellTime', '1e400')).toBe('dwellTime must be a number of seconds, 0 or more');
});

it('a request accepts 1 to 1000 items', () => {
  const outcome = (body: JsonObject) => {
    const items = readItems(body);
    return items.ok ? items.items.length : detailsOf(items);
  };
  expect(outcome({ items: Array(1000).fill({}) })).toBe(1000);
  expect(outcome({ items: Array(1001).fill({}) })).toBe('items must have at most 1000 entries');
  expect(outcome({ items: [] })).toBe('items must have at least one entry');
  expect(outcome({ items: {} })).toBe('items must be an array');
  expect(outcome({ items: null })).toBe('items must be an array');
  expect(outcome({})).toBe('items is required');
});
