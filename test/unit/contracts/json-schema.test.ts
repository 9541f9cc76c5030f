import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import {
  CREDENTIALS_RAW_MEMBERS,
  credentialsSchema,
} from '../../../gateway/operations/authenticate/credentials.ts';
import {
  KEY_RATE_MAX,
  keySchema,
  OVERLAP_SECONDS_MAX,
  rotationSchema,
} from '../../../shared/contracts/api-keys.ts';
import { AUTOMATION_EVENT_RAW_MEMBERS } from '../../../shared/contracts/event.ts';
import { NO_RAW_MEMBERS } from '../../../shared/contracts/json.ts';
import { jsonSchemaOf } from '../../../shared/contracts/json-schema.ts';
import { readJson } from '../../../shared/contracts/read-json.ts';
import { endpointSchema } from '../../../shared/contracts/webhook-endpoints.ts';
import { agentSchema } from '../../../shared/kinds/agent-metadata.ts';
import { automationEventSchema } from '../../../shared/kinds/automation-events.ts';
import { conversationSchema } from '../../../shared/kinds/conversation-metadata.ts';
import { messageSentSchema } from '../../../shared/kinds/message-sent.ts';
import { compileSchema, schemaErrors } from '../../support/json-schema.ts';
import { printedSeed, seededRandom } from '../../support/random.ts';

const OCCURRED = '2026-01-02T03:04:05.123456789Z';

/** Schemas with valid records, from which the tested records are derived. */
const CONTRACTS: [string, z.ZodObject, ReadonlySet<string>, Record<string, unknown>[]][] = [
  ['agent', agentSchema, NO_RAW_MEMBERS, [{ externalAgentId: 'a' }]],
  ['conversation', conversationSchema, NO_RAW_MEMBERS, [{ externalConversationId: 'c' }]],
  ['message', messageSentSchema, NO_RAW_MEMBERS, [{ messageId: 'm', augmentationType: ['FREEHAND'] }]],
  [
    'credentials',
    credentialsSchema,
    CREDENTIALS_RAW_MEMBERS,
    [
      { customerExternalId: 'c', token: 't' },
      { customerExternalId: 'c', auth: { token: 't' } },
      { customerExternalId: 'c', auth: { cookies: { a: 1 } } },
    ],
  ],
  [
    'automation event',
    automationEventSchema,
    AUTOMATION_EVENT_RAW_MEMBERS,
    [
      { conversationId: 'C', externalConversationId: 'x', type: 'processingStart', occurredAt: OCCURRED },
      {
        conversationId: 'C',
        externalConversationId: 'x',
        type: 'reply',
        occurredAt: OCCURRED,
        reply: { messageId: 'r', text: '' },
      },
    ],
  ],
  ['webhook endpoint', endpointSchema, NO_RAW_MEMBERS, [{ url: 'https://example.org/' }]],
  ['API key', keySchema, NO_RAW_MEMBERS, [{ scopes: ['*'] }]],
  ['rotation of an API key', rotationSchema, NO_RAW_MEMBERS, [{}]],
];

const repeated = (text: string) =>
  [16, 17, 64, 65, 100, 101, 256, 257, 1024, 1025, 2048, 2049, 16_384, 16_385].map((n) => text.repeat(n));
const TIMES = [
  OCCURRED,
  '2026-01-02t03:04:05z',
  '2026-01-02T03:04:05+23:59',
  '2026-01-02T03:04:05-00:00',
  '2024-02-29T00:00:00Z',
  '1678-01-01T00:00:00Z',
  '2261-12-31T23:59:59.999999999Z',
  '1677-12-31T23:59:59Z',
  '2262-01-01T00:00:00Z',
  '1600-01-01T00:00:00Z',
  '9999-01-01T00:00:00Z',
  '2025-02-29T00:00:00Z',
  '2026-04-31T00:00:00Z',
  '2026-13-01T00:00:00Z',
  '2026-01-02T24:00:00Z',
  '2016-12-31T23:59:60Z',
  '2026-01-02T03:04:05.1234567890Z',
  '2026-01-02T03:04:05',
  '2026-01-02 03:04:05Z',
  '2026-01-02T03:04:05+24:00',
  ` ${OCCURRED}`,
  `${OCCURRED}\n`,
];
const STRINGS = [
  ...[
    '',
    ' ',
    '\t',
    '\n',
    '\u0001',
    '\u007f',
    '\u0085',
    '\u2028',
    '\ufeff',
    'ä',
    '😀',
    'a',
    'a\n',
    'a b',
    'A_z-9',
    'v1.2',
    'en-gb',
  ],
  ...[
    'en-',
    '-',
    'a@b.c',
    'a@b',
    'a@b@c.d',
    'a@ b.c',
    'a@b.\ufeff',
    'https://example.org/',
    'reply',
    'FREEHAND',
    'WEB',
    'IOS',
  ],
  ...[
    'automation.reply',
    '*',
    'events:read',
    '01KE1B3Q0D5W8X2Y4Z6A7C9E1G',
    '01ke1b3q0d5w8x2y4z6a7c9e1g',
    '81KE1B3Q0D5W8X2Y4Z6A7C9E1G',
  ],
  ...repeated('a'),
  ...repeated('😀'),
  ...TIMES,
];
const LIMITS = [KEY_RATE_MAX, OVERLAP_SECONDS_MAX].flatMap((limit) => [limit, limit + 1]);
const NUMBERS = [
  ...LIMITS,
  0,
  -0,
  1,
  -1,
  0.5,
  -0.5,
  2 ** 31 - 1,
  2 ** 31,
  -(2 ** 31),
  -(2 ** 31) - 1,
  1e300,
  5e-324,
];
const SCALARS = [null, true, ...STRINGS, ...NUMBERS];
const attribute = { name: 'n', value: 'v' };
const OBJECTS = [
  ...[
    {},
    attribute,
    { name: '', value: '' },
    { name: 'n' },
    { token: null },
    { token: 'x' },
    { token: ' ' },
    { token: 1 },
  ],
  ...[
    { body: {} },
    { body: 'x' },
    { headers: null },
    { messageId: 'r', text: 'x' },
    { messageId: ' ', text: 'x' },
    { text: 'x' },
  ],
  ...[{ currentTaskName: 1 }, { referenceVariables: { a: 1 } }, { transferVariables: [] }],
];
const ARRAYS = [
  [],
  ...[0, 1, 10, 11, 100, 101].map((count) => Array(count).fill('FREEHAND')),
  ...[10, 11].map((count) => Array(count).fill(attribute)),
  ...[...SCALARS, ...OBJECTS].map((item) => [item]),
];
const VALUES: readonly unknown[] = [...SCALARS, ...OBJECTS, ...ARRAYS];

/** Rules that JSON Schema cannot express. */
const EXCEPTIONS: Readonly<Record<string, RegExp>> = {
  // Strings with U+0000 or an unpaired surrogate.
  'the schema takes it: text': /\\u0000|\\ud83d/,
  // Leap seconds, which RFC 3339 permits.
  'the schema takes it: time': /23:59:60Z/,
};

describe.each(CONTRACTS)('the JSON Schema of a %s', (name, schema, rawMembers, valid) => {
  const made = jsonSchemaOf(schema);
  const validate = compileSchema(made);
  const verdicts = (record: unknown) => {
    const text = JSON.stringify(record);
    return {
      schema: schemaErrors(validate, JSON.parse(text)).length === 0,
      validator: schema.safeParse(readJson(Buffer.from(text), { rawMembers })).success,
    };
  };
  const isException = (record: unknown, { schema: taken }: { schema: boolean }) => {
    const text = JSON.stringify(record);
    return Object.entries(EXCEPTIONS).some(
      ([what, pattern]) => what.startsWith(taken ? 'the schema' : 'the validator') && pattern.test(text),
    );
  };

  it('describes every member', () => {
    for (const [member, described] of Object.entries(
      made.properties as Record<string, { description?: string }>,
    )) {
      expect(described.description, member).toMatch(/^[A-Z].*\.$/);
    }
  });

  it('agrees with the validator on every member with every value', () => {
    const counts = { accepted: 0, refused: 0 };
    for (const record of valid) {
      for (const member of [...Object.keys(schema.shape), 'unknown']) {
        for (const value of VALUES) {
          const changed = { ...record, [member]: value };
          const both = verdicts(changed);
          counts[both.validator ? 'accepted' : 'refused'] += 1;
          if (both.schema === both.validator || isException(changed, both)) continue;
          expect.fail(`${member}: ${JSON.stringify(value)}: ${JSON.stringify(both)}`);
        }
        const { [member]: _, ...without } = record;
        const omitted = verdicts(without);
        expect(omitted.schema, `without ${member}`).toBe(omitted.validator);
      }
    }
    expect(counts.accepted).toBeGreaterThan(200);
    expect(counts.refused).toBeGreaterThan(200);
  });

  it('agrees with the validator on random records', () => {
    const random = seededRandom(printedSeed(`JSON Schema of a ${name}`));
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
    for (let n = 0; n < 3000; n++) {
      const record: Record<string, unknown> = { ...pick(valid) };
      for (let changes = 1 + Math.floor(random() * 3); changes > 0; changes--) {
        record[pick(Object.keys(schema.shape))] = random() < 0.3 ? randomText(random) : pick(VALUES);
      }
      const both = verdicts(record);
      if (both.schema !== both.validator && !isException(record, both)) {
        expect.fail(`${JSON.stringify(record)}: ${JSON.stringify(both)}`);
      }
    }
  });
});

describe('rules that JSON Schema cannot express', () => {
  const agent = compileSchema(jsonSchemaOf(agentSchema));
  const both = (agentName: string, startTs = OCCURRED) => {
    const record = { externalAgentId: 'a', agentName, startTs };
    return [schemaErrors(agent, record).length === 0, agentSchema.safeParse(record).success];
  };

  it('are described in the document as text', () => {
    expect(both('a\u0000')).toEqual([true, false]);
    expect(both('a\ud83d')).toEqual([true, false]);
    expect(both('a', '2016-12-31T23:59:60Z')).toEqual([true, false]);
  });
});

function randomText(random: () => number): string {
  const letters = [
    'a',
    'Z',
    '0',
    '_',
    '-',
    '.',
    '@',
    ' ',
    '\t',
    '\n',
    '\u0000',
    '\u0080',
    '\u00a0',
    '\ufeff',
    'é',
    '😀',
    '\ud83d',
  ];
  return Array.from(
    { length: Math.floor(random() * 6) },
    () => letters[Math.floor(random() * letters.length)],
  ).join('');
}
