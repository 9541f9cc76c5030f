import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eventIdField, objectOf, text256 } from '../../../shared/contracts/fields.ts';
import {
  isJsonObject,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  NO_RAW_MEMBERS,
} from '../../../shared/contracts/json.ts';
import {
  type ParsedRecord,
  type ParsedWithJson,
  parseRecord,
  type RecordRules,
} from '../../../shared/contracts/parsed.ts';
import { readJson } from '../../../shared/contracts/read-json.ts';
import { RecordScanner } from '../../../shared/contracts/record-scanner.ts';
import { type ScanBody, scanItems, scanOne } from '../../../shared/contracts/scan-records.ts';
import { agentRules, readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { conversationRules, readConversation } from '../../../shared/kinds/conversation-metadata.ts';
import { messageSentRules, readMessageSent } from '../../../shared/kinds/message-sent.ts';
import { BODIES, type Body } from './field-rules.ts';

/**
 * The scanner is a second reader of requests. It may leave any record to the other reader, but it
 * must never read a record differently, and it must read the usual forms itself.
 */

const RUNS = { numRuns: 500 };
const ITEMS_MAX = 10;

interface ScannedKind {
  readonly rules: RecordRules<never>;
  readonly read: (value: JsonValue) => ParsedWithJson<JsonObject>;
  /** A record with all members. */
  readonly complete: JsonObject;
  readonly members: Body['members'];
}

const KINDS: Readonly<Record<string, ScannedKind>> = {
  agents: {
    rules: agentRules as never,
    members: BODIES.agents!.members,
    read: readAgentItem as ScannedKind['read'],
    complete: {
      eventId: 'event-1',
      externalAgentId: 'agent-1',
      startTs: '2026-01-02T03:04:05.123456789+01:00',
      lobId: 'lob',
      lobName: 'Support',
      groupId: 'group',
      groupName: '',
      agentName: 'Ada',
      agentLocation: 'Leeds',
      supervisorId: 'supervisor',
      supervisorName: 'Grace',
      languages: ['en-GB', 'de'],
      concurrency: 3,
      categoryLabel: 'c',
      accountAccessLevel: 'a',
      ranking: -4,
      vendor: 'v',
      jobTitle: 'j',
      jobRole: 'r',
      workShift: 'w',
      emailAddress: 'ada@example.org',
      attributes: [
        { name: 'desk', value: '4.17' },
        { name: 'n', value: '' },
      ],
    },
  },
  conversations: {
    rules: conversationRules as never,
    members: BODIES.conversations!.members,
    read: readConversation as ScannedKind['read'],
    complete: {
      eventId: 'event-1',
      externalConversationId: 'conversation-1',
      lobId: 'lob',
      lobName: 'Support',
      groupId: 'group',
      groupName: 'Billing',
      agentRoutingCode: 'code',
      campaign: 'campaign',
      deviceType: 'PHONE',
      platform: 'WEB',
      companySegment: ['a', 'b'],
      companySubdivision: 's',
      businessRule: 'r',
      entryType: 'e',
      operatingSystem: 'IOS',
      browserType: 'b',
      browserVersion: '1.2',
      attributes: [],
    },
  },
  'messages sent': {
    rules: messageSentRules as never,
    members: BODIES['message-sent events']!.members,
    read: readMessageSent as ScannedKind['read'],
    complete: {
      conversationId: 'conversation-1',
      messageId: 'message-1',
      augmentationType: ['AUTOSUGGEST', 'FREEHAND'],
      numEdits: 0,
      initialSuggestionsId: 'i',
      phraseAutocompletePresentedCt: 0,
      selectedSuggestionText: 'How can I help?',
      selectedSuggestionsId: 's',
      selectedSuggestionIndex: 1,
      timeToAction: 2.5,
      craftingTime: 10,
      dwellTime: 0.000001,
      phraseAutocompleteSelectedCt: 1,
      externalConversationId: 'chat-1',
      occurredAt: '2026-01-02T03:04:05.123456789+01:00',
    },
  },
};

function end<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

function scan(body: ScanBody, bytes: Buffer): readonly ParsedRecord[] | undefined {
  return end(body(bytes))?.records;
}

/** Returns the record without its values, and with its JSON as text. */
function comparable(parsed: ParsedRecord): object {
  if (!parsed.ok) return parsed;
  const { ok, id, entity, contentHash, time, json } = parsed;
  return { ok, id, entity, contentHash, time, json: json.toString() };
}

/** Reads a body as JSON; returns undefined if it is none. */
function readBody(bytes: Buffer): JsonValue | undefined {
  try {
    return readJson(bytes, { rawMembers: NO_RAW_MEMBERS });
  } catch (error) {
    if (error instanceof JsonSyntaxError) return undefined;
    throw error;
  }
}

/** Asserts that both readers agree on a body of one record. Returns whether the scanner read it. */
function isReadEqually({ rules, read }: ScannedKind, bytes: Buffer): boolean {
  const scanned = scan(scanOne(new RecordScanner(rules)), bytes);
  if (scanned === undefined) return false;
  const value = readBody(bytes);
  expect(value).toBeDefined();
  expect(scanned.map(comparable)).toEqual([comparable(read(value!))]);
  return true;
}

/** Asserts that both readers agree on a body of items. Returns whether the scanner read it. */
function areReadEqually({ rules, read }: ScannedKind, bytes: Buffer): boolean {
  const options = { scanner: new RecordScanner(rules), readItem: read, itemsMax: ITEMS_MAX };
  const scanned = scan(scanItems(options), bytes);
  if (scanned === undefined) return false;
  const value = readBody(bytes);
  if (!isJsonObject(value) || !Array.isArray(value.items)) throw new Error(`scanned ${bytes}`);
  expect(Object.keys(value)).toEqual(['items']);
  expect(scanned.map(comparable)).toEqual(value.items.map((item) => comparable(read(item))));
  return true;
}

const space = fc.constantFrom('', '', ' ', '\n  ', '\t\r\n');
const TOKEN = /"(?:[^"\\]|\\.)*"|-?[0-9.]+(?:e[+-]?[0-9]+)?|[a-z]+|[^"]/g;

/** Writes JSON with white space between its tokens. */
function spaced(json: string, spaces: readonly string[]): string {
  const tokens = json.match(TOKEN)!;
  return tokens.map((token, index) => token + (spaces[index % spaces.length] ?? '')).join('');
}

/** Texts that are valid values of names, with all kinds of characters. */
const anyText = fc.string({ unit: fc.constantFrom(...'aZ0 "\\/\n\té漢😀\u007f\u0085\u2028'), maxLength: 20 });

/** Valid records: some members, in any order, some of them null or with unusual characters. */
function validRecord({ rules, complete, read }: ScannedKind): fc.Arbitrary<JsonObject> {
  const names = Object.keys(complete);
  return fc
    .tuple(
      fc.shuffledSubarray(names, { minLength: names.length - 4 }),
      fc.dictionary(fc.constantFrom(...names), fc.oneof(anyText, fc.constant(null)), { maxKeys: 3 }),
      fc.boolean(),
    )
    .map(([order, changes, inOrder]) => {
      const kept = inOrder ? names.filter((name) => order.includes(name)) : order;
      return Object.fromEntries(kept.map((name) => [name, changes[name] ?? complete[name]]));
    })
    .filter((record) => read(record as JsonObject).ok && rules.idMember in complete);
}

const nasty = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.double(),
  fc.constantFrom('', ' ', '__proto__', 2147483648, -1, 1e300, null, 'FREEHAND', '\ud800', '\u0000'),
);

/** Any records: the complete one with some members replaced, added or left out. */
function anyRecord({ complete }: ScannedKind): fc.Arbitrary<string> {
  const names = [...Object.keys(complete), '__proto__', 'unknown'];
  return fc
    .array(fc.tuple(fc.constantFrom(...names), nasty), { maxLength: 3 })
    .map((changes) => JSON.stringify(Object.fromEntries([...Object.entries(complete), ...changes])));
}

/** Bytes as Latin-1, so that they need not be UTF-8. */
const FRAGMENTS = [
  ...['', '-0', '-0.0', '00', '012', '1.', '.5', '1.50', '1e2', '-', '1234567890', '0.1234567890123456'],
  ...['0.0000001', '1.0', '2147483648', '-1', '123456789012345678901', 'null', 'nul', 'true', '{}', '[]'],
  ...[
    '""',
    '" "',
    '"\\u0041"',
    '"\\""',
    '"\\u0000"',
    '"\\ud800"',
    '"\\x"',
    '"\0"',
    '"\n"',
    '"\x7f"',
    '"\xff"',
  ],
  ...['"\xc3\xa9"', '"2026-02-30T00:00:00Z"', '[null]', '[[]]', '["a",]', '[{"name":"a","value":"b","c":1}]'],
  ...['[{"value":"b","name":"a"}]', '[ "FREEHAND" ]', '"eventId":"x",', '"x":{"y":[1]},', '"x":1,'],
  ...[',', ':', '{', '}', '[', ']', '"', ' ', '\\', '\ufeff', 'é'],
];
const RANGE_MAX = 4;

/** Yields the text with each of its tokens replaced by each fragment, and without each short range. */
function* damaged(json: string): Generator<Buffer> {
  const tokens = json.match(TOKEN)!;
  const replaced = (start: number, end: number, text: string) =>
    Buffer.from([...tokens.slice(0, start), text, ...tokens.slice(end)].join(''), 'latin1');
  for (const [i, token] of tokens.entries()) {
    for (const fragment of FRAGMENTS) {
      yield replaced(i, i + 1, fragment);
      yield replaced(i, i, fragment);
    }
    yield replaced(i, i, token);
    for (let to = i + 1; to <= Math.min(i + RANGE_MAX, tokens.length); to++) yield replaced(i, to, '');
  }
}

const bodyOf = (...items: readonly string[]) => `{"items":[${items.join(',')}]}`;

describe.each(Object.entries(KINDS))('the scanner of %s', (_, kind) => {
  const complete = JSON.stringify(kind.complete);

  it('copies the JSON of a usual record', () => {
    const body = Buffer.from(complete);
    const [record] = scan(scanOne(new RecordScanner(kind.rules)), body)!;
    expect(isReadEqually(kind, body)).toBe(true);
    expect(JSON.parse((record as { json: Buffer }).json.toString())).toEqual(lowerCased(kind));
    if (!kind.rules.lowerCased) expect((record as { json: Buffer }).json.buffer).toBe(body.buffer);
  });

  it('never reads values at the limits of their rules differently', () => {
    const values = Object.entries(kind.members).flatMap(([member, rule]) =>
      [...rule.accepts, ...rule.refuses.map(([value]) => value), ...rule.otherTypes, null].map((value) =>
        JSON.stringify({ ...kind.complete, [member]: value }),
      ),
    );
    for (const json of values) isReadEqually(kind, Buffer.from(json));
  });

  it('never reads repeated members differently', () => {
    for (const [member, value] of Object.entries(kind.complete)) {
      for (const others of [
        [null, value],
        [value, null],
        [value, 'x', value],
        [null, null],
      ]) {
        const repeats = others.map((other) => `"${member}":${JSON.stringify(other)},`).join('');
        isReadEqually(kind, Buffer.from(`{${repeats}${complete.slice(1)}`));
      }
    }
  });

  it('reads valid records in any order, with white space, escapes and any characters', () => {
    fc.assert(
      fc.property(
        validRecord(kind),
        fc.array(space, { minLength: 1, maxLength: 7 }),
        fc.boolean(),
        (record, spaces, escaped) => {
          const json = JSON.stringify(record);
          const text = escaped ? json.replace(/[^ -~]/g, (c) => `\\u${hex4(c)}`) : json;
          expect(isReadEqually(kind, Buffer.from(spaced(text, spaces)))).toBe(true);
        },
      ),
      RUNS,
    );
  });

  it('never reads values of any type differently', () => {
    fc.assert(
      fc.property(anyRecord(kind), fc.array(space, { minLength: 1 }), (json, spaces) => {
        isReadEqually(kind, Buffer.from(spaced(json, spaces)));
      }),
      RUNS,
    );
  });

  it('never reads a damaged record differently', () => {
    for (const bytes of damaged(complete)) isReadEqually(kind, bytes);
  });

  it('never reads a damaged body of items differently', () => {
    const small = Object.fromEntries(Object.entries(kind.complete).slice(0, 4));
    for (const bytes of damaged(bodyOf(complete, JSON.stringify(small)))) areReadEqually(kind, bytes);
  });

  it('reads any items, and leaves those that it does not accept to the other reader', () => {
    const items = fc.array(
      fc.oneof(
        validRecord(kind).map((record) => JSON.stringify(record)),
        anyRecord(kind),
      ),
      { minLength: 1, maxLength: 5 },
    );
    fc.assert(
      fc.property(items, fc.array(space, { minLength: 1 }), (texts, spaces) => {
        expect(areReadEqually(kind, Buffer.from(spaced(bodyOf(...texts), spaces)))).toBe(true);
      }),
      RUNS,
    );
  });

  it('reads no body with too many items, deep values, or much that must be parsed', () => {
    const read = (...items: readonly string[]) => areReadEqually(kind, Buffer.from(bodyOf(...items)));
    const unknown = (value: string) => `{"unknown":${value},${complete.slice(1)}`;
    const deep = (levels: number) => unknown('['.repeat(levels) + ']'.repeat(levels));
    expect(read(...Array<string>(ITEMS_MAX).fill(complete))).toBe(true);
    expect(read(...Array<string>(ITEMS_MAX + 1).fill(complete))).toBe(false);
    expect(read(deep(29))).toBe(true);
    expect(read(deep(30))).toBe(false);
    const large = unknown(JSON.stringify('x'.repeat(15_000)));
    expect(read(...Array<string>(8).fill(large))).toBe(true);
    expect(read(...Array<string>(9).fill(large))).toBe(false);
    expect(read(unknown(JSON.stringify('x'.repeat(17_000))))).toBe(false);
    expect(read(`${' '.repeat(1000)}${complete}`)).toBe(true);
    expect(read(`${' '.repeat(2000)}${complete}`)).toBe(false);
  });
});

it('hashes a record without its id when the id is the last member, or the only one', () => {
  const schema = objectOf({ name: text256.nullish(), id: eventIdField.nullish() });
  const rules = { schema, idMember: 'id', keepNull: true, entityMembers: ['name'] };
  const read = (value: JsonValue) => parseRecord(value, rules);
  const kind = { rules, read, complete: {}, members: {} } as unknown as ScannedKind;
  for (const json of ['{"name":"n","id":"i"}', '{"id":"i"}', '{"id":null}', '{"name":"n"}']) {
    expect(isReadEqually(kind, Buffer.from(json))).toBe(true);
  }
});

/** Returns the complete record as it is stored. */
function lowerCased({ rules, complete }: ScannedKind): JsonObject {
  const { lowerCased: member } = rules as { readonly lowerCased?: string };
  const texts = member === undefined ? [] : (complete[member] as string[]);
  return member === undefined ? complete : { ...complete, [member]: texts.map((text) => text.toLowerCase()) };
}

function hex4(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(4, '0');
}
