import { expect, it } from 'vitest';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { type IsErased, withoutErasedInValue } from '../../shared/postgres/erased-members.ts';

const isErased: IsErased = (subject, id) => id === `gone-${subject}`;

/** Returns the value of a record with this data without what is erased; undefined: all of it is. */
function erase(kind: Kind, entity: string, data: string) {
  const value = Buffer.from(`{"id":"a","contenthash":"kept","data":${data}}`);
  const left = withoutErasedInValue({ kind, entity, value }, isErased);
  if (left?.value === value) return 'unchanged';
  return left && String(left.value);
}

it('erases a record as a whole only because of its own ids', () => {
  expect(erase('agent-metadata', 'gone-agent', '{}')).toBeUndefined();
  expect(erase('agent-metadata', '', '{"externalAgentId":"gone-agent"}')).toBeUndefined();
  expect(erase('credentials', 'a', '{"customerExternalId":"gone-customer"}')).toBeUndefined();
  expect(erase('message-sent', 'a', '{"externalConversationId":"gone-conversation"}')).toBeUndefined();
  expect(erase('message-sent', 'gone-conversation-id', '{"conversationId":""}')).toBe('unchanged');
  const event = '"externalConversationId":"a","conversationId":"gone-conversation-id"';
  const variables = '"inputVariables":{"value":"gone-customer","externalConversationId":"gone-conversation"}';
  expect(erase('automation-events', 'a', `{${event},${variables}}`)).toBe('unchanged');
});

it('removes members that name a person from records of others, and keeps everything else', () => {
  expect(erase('agent-metadata', 'a', '{"supervisorId":"gone-agent","concurrency":1.0,"b":"\\u00e9"}')).toBe(
    '{"id":"a","contenthash":"kept","data":{"supervisorId":null,"concurrency":1,"b":"é","supervisorName":null}}',
  );
  const attributes = '[{"name":"n","value":"gone-customer"},7,{"name":"n","value":"b"}]';
  expect(erase('conversation-metadata', 'a', `{"attributes":${attributes}}`)).toBe(
    '{"id":"a","contenthash":"kept","data":{"attributes":[7,{"name":"n","value":"b"}]}}',
  );
  expect(erase('conversation-metadata', 'a', '{"attributes":"gone-customer"}')).toBe('unchanged');
});

it('erases a record that is not readable only by its entity', () => {
  expect(erase('agent-metadata', 'gone-agent', '{')).toBeUndefined();
  expect(erase('agent-metadata', 'a', '{"supervisorId":"gone-agent"')).toBe('unchanged');
});
