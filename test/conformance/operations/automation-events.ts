import { type Case, type Operation, one, type Run, type Writing } from '../case.ts';
import { type Field, objectText } from '../fields.ts';
import { BAD_PARAMS, CONFLICT, itemsCases, itemsWriting, refusedText } from '../items.ts';
import { repeatCases } from '../repeats.ts';
import { ID, TEXT } from '../rules.ts';
import { writingCases } from '../writing.ts';

const METHOD = 'POST';
const PATH = '/automation-agent/v1/events';
const KIB = 1024;

export const EVENT_TYPES = [
  'processingStart',
  'reply',
  'processingEnd',
  'confirmationRequired',
  'authenticationRequired',
  'transferToAgent',
  'transferToSystem',
];

const inReply = (member: string) => (json: string | undefined) =>
  objectText({ messageId: '"m"', text: '"t"', [member]: json });
const inTransfer = (member: string) => (json: string | undefined) => objectText({ [member]: json });

const FIELDS: readonly Field[] = [
  { path: 'conversationId', rule: ID, required: true },
  { path: 'externalConversationId', rule: ID, required: true },
  {
    path: 'type',
    // A reply needs more members; see below.
    rule: { kind: 'enum', values: EVENT_TYPES.filter((type) => type !== 'reply') },
    required: true,
  },
  { path: 'occurredAt', rule: { kind: 'timestamp' }, required: true },
  { path: 'eventId', rule: { kind: 'ulid' } },
  { path: 'currentTaskName', rule: TEXT },
  { path: 'inputVariables', rule: { kind: 'free-form' } },
  { path: 'reply.messageId', rule: ID, required: true, within: inReply('messageId') },
  { path: 'reply.text', rule: { kind: 'text', max: 16_384 }, required: true, within: inReply('text') },
  {
    path: 'transferToSystem.referenceVariables',
    rule: { kind: 'free-form' },
    within: inTransfer('referenceVariables'),
  },
  {
    path: 'transferToSystem.transferVariables',
    rule: { kind: 'free-form' },
    within: inTransfer('transferVariables'),
  },
  { path: 'transferToSystem.currentTaskName', rule: TEXT, within: inTransfer('currentTaskName') },
];

export const automationEvents: Operation = {
  name: 'automation-events',
  method: METHOD,
  path: PATH,
  scope: 'automation:write',
  cases(run) {
    const item = () => ({
      conversationId: `"${run.id()}"`,
      externalConversationId: `"${run.id()}"`,
      type: '"processingStart"',
      occurredAt: '"2026-01-02T03:04:05.678Z"',
    });
    const writing = itemsWriting({ bodyBytesMax: 4 * KIB * KIB, item });
    return [
      ...writingCases(writing, { method: METHOD, path: PATH, fields: FIELDS, run }),
      ...itemsCases(item, () => run.ulid()),
      ...replyCases(item),
      ...sizeCases(item),
      ...repeats(run, writing),
    ];
  },
};

function replyCases(item: () => Record<string, string>): Case[] {
  const reply = (name: string, members: Record<string, string>, error: RegExp | '') =>
    one(
      'reply',
      name,
      { body: `{"items":[${objectText({ ...item(), ...members })}]}` },
      {
        status: error ? 400 : 200,
        results: [error],
      },
    );
  const missing = refusedText('reply');
  return [
    reply('with its object', { type: '"reply"', reply: '{"messageId":"m","text":"t"}' }, ''),
    reply('without its object', { type: '"reply"' }, missing),
    reply('with null as its object', { type: '"reply"', reply: 'null' }, missing),
    reply('with an array as its object', { type: '"reply"', reply: '[]' }, missing),
    reply('with a string as its object', { type: '"reply"', reply: '"t"' }, missing),
    reply('a transfer without its object', { type: '"transferToSystem"' }, ''),
    reply(
      'a transfer with an array as its object',
      { type: '"transferToSystem"', transferToSystem: '[]' },
      refusedText('transferToSystem'),
    ),
  ];
}

/** Returns cases for the limit of an encoded record, 512 KiB. */
function sizeCases(item: () => Record<string, string>): Case[] {
  const withVariables = (bytes: number) =>
    objectText({ ...item(), inputVariables: `{"v":"${'x'.repeat(bytes)}"}` });
  return [
    one(
      'record size',
      'a record of 511 KiB next to one of 513 KiB',
      { body: `{"items":[${withVariables(511 * KIB)},${withVariables(513 * KIB)}]}` },
      {
        status: 200,
        results: ['', BAD_PARAMS],
      },
    ),
    one(
      'record size',
      '513 KiB',
      { body: `{"items":[${withVariables(513 * KIB)}]}` },
      {
        status: 400,
        results: [BAD_PARAMS],
      },
    ),
  ];
}

function repeats(run: Run, { accepted }: Writing): Case[] {
  const conversation = run.id();
  const record = (id: string, content: string | null | undefined) =>
    objectText({
      eventId: `"${id}"`,
      conversationId: `"${conversation}"`,
      externalConversationId: `"${conversation}"`,
      type: '"processingStart"',
      occurredAt: '"2026-01-02T03:04:05.678Z"',
      currentTaskName: content === undefined ? undefined : JSON.stringify(content),
    });
  const conflict = { status: 400, results: [CONFLICT] };
  const [bytes, zone] = [run.ulid(), run.ulid()];
  const changed = (id: string, from: string, to: string) =>
    `{"items":[${record(id, 'one').replace(from, to)}]}`;
  const sequence = (name: string, ...bodies: string[]): Case => ({
    group: 'repeats',
    name,
    steps: bodies.map((body, index) => ({ send: { body }, expect: index === 1 ? conflict : accepted })),
  });
  const variables = (json: string) => changed(bytes, '"type"', `"inputVariables":${json},"type"`);
  return [
    ...repeatCases({
      body: (id, content) => `{"items":[${record(id, content)}]}`,
      reordered: (id, content) => `{"items":[${reversed(record(id, content))}]}`,
      newId: () => run.ulid(),
      accepted,
      conflict,
      nullDiffers: false,
      many: (items) => `{"items":[${items.map(([id, content]) => record(id, content)).join(',')}]}`,
    }),
    sequence(
      'free-form objects with different bytes are different content',
      variables('{"a":1}'),
      variables('{"a": 1}'),
      variables('{"a":1}'),
    ),
    sequence(
      'equal times in different notation are different content',
      changed(zone, '678Z', '678Z'),
      changed(zone, '678Z', '678+00:00'),
      changed(zone, '678Z', '678Z'),
    ),
  ];
}

function reversed(object: string): string {
  const entries = Object.entries(JSON.parse(object) as object).reverse();
  return JSON.stringify(Object.fromEntries([['notKnown', {}], ...entries]));
}
