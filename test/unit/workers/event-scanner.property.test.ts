import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type AcceptedRecord,
  decodeEvent,
  type Envelope,
  encodeEvent,
} from '../../../shared/contracts/event.ts';
import type { JsonObject, JsonValue } from '../../../shared/contracts/json.ts';
import { QualityCounts } from '../../../shared/data-quality/counts.ts';
import { type Member, membersOf } from '../../../shared/kinds/members.ts';
import { messageSentSchema } from '../../../shared/kinds/message-sent.ts';
import { AGENT_TABLES, CONVERSATION_TABLES } from '../../../shared/postgres/entity-tables.ts';
import { agentMetadata } from '../../../workers/kinds/agent-metadata.ts';
import { conversationMetadata } from '../../../workers/kinds/conversation-metadata.ts';
import { messageSent } from '../../../workers/kinds/message-sent.ts';
import type { RecordKind } from '../../../workers/kinds/record-kind.ts';

/**
 * The scanner of a kind is a second reader of the same format. It may leave any event to the other
 * reader, but it must never read an event differently.
 */

const RUNS = { numRuns: 500 };
const NOW_MS = Date.UTC(2026, 0, 31, 23, 59, 59, 7);

interface ScannedKind {
  readonly kind: RecordKind<unknown>;
  /** The members of the schema, in its order. */
  readonly members: readonly Member[];
  /** Names of the members without a column. */
  readonly ids: readonly string[];
  readonly allowNull: boolean;
}

const KINDS: readonly ScannedKind[] = [
  {
    kind: messageSent as RecordKind<unknown>,
    members: membersOf(messageSentSchema),
    ids: ['messageId'],
    allowNull: false,
  },
  {
    kind: agentMetadata as RecordKind<unknown>,
    members: AGENT_TABLES.sentMembers,
    ids: AGENT_TABLES.idMembers,
    allowNull: true,
  },
  {
    kind: conversationMetadata as RecordKind<unknown>,
    members: CONVERSATION_TABLES.sentMembers,
    ids: CONVERSATION_TABLES.idMembers,
    allowNull: true,
  },
];

/** Texts that need no escapes in JSON. */
const plainText = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'aZ09 {}[],:.-é漢😀\u007f\u2028') }),
  fc.constantFrom('AUTOSUGGEST', 'PHRASE_AUTOCOMPLETE', 'null', 'true'),
);
const integer = fc.oneof(fc.integer({ min: -999_999_999, max: 999_999_999 }), fc.nat(9));

/** Values that the scanner reads, by the type of the column. */
const PLAIN: Readonly<Record<Member['column']['type'], fc.Arbitrary<unknown>>> = {
  text: plainText,
  'text[]': fc.array(plainText, { maxLength: 4 }),
  integer,
  'double precision': fc
    .tuple(integer, fc.nat(6))
    .map(([digits, places]) => Number((digits / 10 ** places).toFixed(places))),
  bigint: fc.constantFrom('2026-01-02T03:04:05.123456789Z', '1999-12-31T23:59:59+02:00'),
  json: fc.array(fc.record({ name: plainText, value: plainText }), { maxLength: 3 }),
};

/** Values of any type, some of which no column holds. */
const ANY = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.integer(),
  fc.double(),
  fc.constantFrom(null, true, -0, 1e21, 5e-324, 2 ** 31, 2 ** 53, '2026-02-30T00:00:00Z', '\ud800', 'a"b\\'),
  fc.array(fc.oneof(fc.string({ unit: 'binary' }), fc.integer()), { maxLength: 3 }),
  fc.array(fc.dictionary(fc.constantFrom('name', 'value', 'other'), fc.string()), { maxLength: 3 }),
);

function dataOf(
  { members, ids, allowNull }: ScannedKind,
  arbitraryOf: (member: Member) => fc.Arbitrary<unknown>,
): fc.Arbitrary<JsonObject> {
  const values = members.map((member): [string, fc.Arbitrary<unknown>] => {
    const { name, isRequired } = member;
    if (ids.includes(name)) return [name, fc.constant('id')];
    const value = allowNull ? fc.option(arbitraryOf(member), { freq: 8 }) : arbitraryOf(member);
    return [name, isRequired ? value : fc.option(value, { nil: undefined, freq: 4 })];
  });
  return fc.record(Object.fromEntries(values)) as fc.Arbitrary<JsonObject>;
}

const EXAMPLES: Readonly<Record<Member['column']['type'], JsonValue>> = {
  text: 'some text',
  'text[]': ['AUTOSUGGEST', 'é'],
  integer: 17,
  'double precision': 1.25,
  bigint: '2026-01-02T03:04:05.123456789Z',
  json: [{ name: 'floor', value: '3' }],
};

/** Returns data with all members. */
function completeData({ members }: ScannedKind): JsonObject {
  return Object.fromEntries(members.map(({ name, column }) => [name, EXAMPLES[column.type]]));
}

/** Events as a gateway writes them. */
function eventOf(scanned: ScannedKind, data: fc.Arbitrary<JsonObject>): fc.Arbitrary<Buffer> {
  const optional = (text: string) => fc.option(fc.constant(text), { nil: undefined });
  return fc
    .record({
      kind: fc.constant(scanned.kind.kind),
      tenantId: fc.constantFrom('t', 'tenant-2'),
      id: fc.constantFrom('id', 'ïd'),
      idGenerated: fc.boolean(),
      entity: fc.constantFrom('entity', '客户'),
      acceptedAtMs: fc.integer({ min: NOW_MS - 86_400_000, max: NOW_MS + 86_400_000 }),
      requestId: fc.constantFrom('', '01JABCDEFGHJKMNPQRSTVWXYZ0'),
      traceparent: optional('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'),
      contentHash: optional('a'.repeat(64)),
      data,
    })
    .map((record) => encodeEvent(record as AcceptedRecord));
}

/** Returns the statements that store a row, with their parameters. */
async function statementsOf(kind: RecordKind<unknown>, event: Envelope, row: unknown): Promise<unknown[]> {
  const statements: unknown[] = [];
  const db = {
    query: async (statement: unknown, values?: unknown) => {
      statements.push([statement, values]);
      return { rows: [], rowCount: 0 };
    },
  };
  const read = { generation: 1, partition: 2, offset: 3n };
  await kind.write(db, [{ event, row, read, firstPosition: read }], {
    nowMs: NOW_MS,
    erasedAtMs: () => undefined,
    quality: new QualityCounts(),
  });
  return statements;
}

/** Asserts that both readers agree. Resolves with whether the scanner read the event. */
async function isReadEqually({ kind }: ScannedKind, bytes: Buffer): Promise<boolean> {
  const scanned = kind.scanner!.read(bytes);
  if (scanned === undefined) return false;
  const { data, ...event } = decodeEvent(bytes, kind.kind);
  expect(scanned.event).toEqual(event);
  const row = kind.read({ ...event, data });
  expect(await statementsOf(kind, scanned.event, scanned.data)).toEqual(await statementsOf(kind, event, row));
  return true;
}

const TOKEN = /"[^"]*"|-?[0-9.]+|[^"]/g;
/** Bytes as Latin-1, so that they need not be UTF-8. */
const FRAGMENTS = [
  ...['', '-0', '-0.0', '00', '012', '1.', '.5', '1.50', '1e2', '-', '1234567890', '0.1234567890123456'],
  ...['""', '" "', '"\\u0041"', '"\\""', '"\0"', '"\n"', '"\xff"', '"\xc3\xa9"', 'null', 'true', '{}', '[]'],
  ...['"2026-01-31T24:00:00.001Z"', '"2026-02-30T00:00:00.000Z"', '"2026-01-31T00:60:00.000Z"'],
  ...['"1.0 "', ',', ':', '{', '}', '[', ']', '"', ' ', '\\', '\ufeff'],
];

const RANGE_MAX = 8;

/** Yields the event with each of its tokens replaced by each fragment, and without each short range. */
function* damaged(event: Buffer): Generator<Buffer> {
  const tokens = event.toString('latin1').match(TOKEN)!;
  const replaced = (start: number, end: number, text: string) =>
    Buffer.from([...tokens.slice(0, start), text, ...tokens.slice(end)].join(''), 'latin1');
  for (const [i, token] of tokens.entries()) {
    for (const fragment of FRAGMENTS) yield replaced(i, i + 1, fragment);
    yield replaced(i, i, token);
    for (let end = i + 1; end <= Math.min(i + RANGE_MAX, tokens.length); end++) yield replaced(i, end, '');
  }
}

/** Yields the event with each pair of neighbouring parts between commas swapped. */
function* reordered(event: Buffer): Generator<Buffer> {
  const parts = event.toString().split(',');
  for (let i = 0; i + 1 < parts.length; i++) {
    yield Buffer.from(parts.toSpliced(i, 2, parts[i + 1]!, parts[i]!).join(','));
  }
}

describe.each(KINDS.map((scanned) => [scanned.kind.kind, scanned] as const))(
  'the scanner of %s',
  (_, scanned) => {
    const plain = eventOf(
      scanned,
      dataOf(scanned, ({ column }) => PLAIN[column.type]),
    );

    it('reads every event without escapes, as the other reader does', async () => {
      await fc.assert(
        fc.asyncProperty(plain, async (bytes) => isReadEqually(scanned, bytes)),
        RUNS,
      );
    });

    it('never reads values of any type differently', async () => {
      const events = eventOf(
        scanned,
        dataOf(scanned, ({ column }) => fc.oneof({ arbitrary: PLAIN[column.type], weight: 12 }, ANY)),
      );
      await fc.assert(
        fc.asyncProperty(events, async (bytes) => {
          await isReadEqually(scanned, bytes);
        }),
        RUNS,
      );
    });

    it('never reads damaged or reordered events differently', async () => {
      const [event] = fc.sample(plain, { numRuns: 1, seed: 7 });
      const complete = encodeEvent({
        ...decodeEvent(event!, scanned.kind.kind),
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        contentHash: 'a'.repeat(64),
        idGenerated: true,
        data: completeData(scanned),
      });
      expect(await isReadEqually(scanned, complete)).toBe(true);
      for (const bytes of damaged(complete)) await isReadEqually(scanned, bytes);
      for (const bytes of reordered(complete)) await isReadEqually(scanned, bytes);
    });
  },
);
