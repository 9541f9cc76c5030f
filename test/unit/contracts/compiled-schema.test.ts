import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { z } from 'zod';
import { compile, INVALID } from '../../../shared/contracts/compiled-schema.ts';
import { AUTOMATION_EVENT_RAW_MEMBERS } from '../../../shared/contracts/event.ts';
import type { JsonObject } from '../../../shared/contracts/json.ts';
import { readJson } from '../../../shared/contracts/read-json.ts';
import { agentSchema } from '../../../shared/kinds/agent-metadata.ts';
import { automationEventSchema } from '../../../shared/kinds/automation-events.ts';
import { conversationSchema } from '../../../shared/kinds/conversation-metadata.ts';
import { messageSentSchema } from '../../../shared/kinds/message-sent.ts';
import { agent, automationReply, messageSent } from '../../bench/load/records.ts';

const TIMES = [
  '2026-01-02T03:04:05Z',
  '2026-01-02T03:04:05',
  '1677-01-02T03:04:05Z',
  `2026${'0'.repeat(70)}`,
];

/** Values of which some are valid for some members. */
const someValue = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(
    'a',
    'a-b',
    'PHONE',
    'reply',
    'processingEnd',
    'FREEHAND',
    '',
    ' ',
    'x'.repeat(257),
  ),
  fc.constantFrom<unknown>('\u0000', '\ud800', '\u0007', 'a@b.cd', '01ARZ3NDEKTSV4RRFFQ69G5FAV', ...TIMES),
  fc.constantFrom<unknown>(null, 0, -0, 1, -1, 1.5, 2147483647, 2147483648, 1e300, true),
  fc.array(
    fc.constantFrom<unknown>('FREEHAND', 'en', 'EN-gb', 'a', '', 1, { name: 'n', value: 'v' }, { name: '' }),
    {
      maxLength: 12,
    },
  ),
  fc.constant({ messageId: 'm', text: 't', unknown: 1 }),
  fc.constant({ referenceVariables: { a: '\u0000' }, currentTaskName: 't' }),
);

const conversation = {
  eventId: 'e',
  externalConversationId: 'c',
  lobName: 'name',
  deviceType: 'PHONE',
  platform: 'WEB',
  companySegment: ['a'],
  browserVersion: '1.2',
  attributes: [{ name: 'n', value: 'v', more: 1 }],
};

it.each<[string, z.ZodObject, JsonObject]>([
  ['agents', agentSchema, agent('e', 'a')],
  ['conversations', conversationSchema, conversation],
  ['MessageSent events', messageSentSchema, messageSent('m', 'c')],
  ['automation events', automationEventSchema, automationReply('01ARZ3NDEKTSV4RRFFQ69G5FAV', 'c')],
])('the compiled schema accepts the same %s as zod, with the same result', (_, schema, valid) => {
  const names = [...Object.keys(schema.shape), 'unknown', '__proto__'];
  let accepted = 0;
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom(...names), someValue), { maxLength: 2 }), (changes) => {
      const text = JSON.stringify(Object.fromEntries([...Object.entries(valid), ...changes]));
      // A fraction that no double has.
      const inexact = text.replace('1.25', '1.00000000000000000001');
      for (const json of [text, inexact]) {
        const value = readJson(Buffer.from(json), { rawMembers: AUTOMATION_EVENT_RAW_MEMBERS });
        const result = schema.safeParse(value);
        const known = compile(schema)!(value);
        if (result.success) accepted += 1;
        if (result.success) expect(known).toStrictEqual(result.data);
        else expect(known).toBe(INVALID);
      }
    }),
    { numRuns: 3000 },
  );
  expect(accepted).toBeGreaterThan(500);
});

it.each([[null], [1], ['text'], [[]], [{}]])('the compiled schema refuses %j', (value) => {
  expect(compile(messageSentSchema)!(value)).toBe(INVALID);
});
