import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  CREDENTIALS_RAW_MEMBERS,
  readCredentials,
} from '../../../gateway/operations/authenticate/credentials.ts';
import { AUTOMATION_EVENT_RAW_MEMBERS, decodeEvent, encodeEvent } from '../../../shared/contracts/event.ts';
import { type JsonObject, type JsonValue, writeJson } from '../../../shared/contracts/json.ts';
import type { Kind } from '../../../shared/contracts/kinds.ts';
import type { Parsed } from '../../../shared/contracts/parsed.ts';
import { readJson } from '../../../shared/contracts/read-json.ts';
import { isTimestamp, parseTimestampNs } from '../../../shared/contracts/timestamps.ts';
import { readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { readAutomationEvent } from '../../../shared/kinds/automation-events.ts';
import { readConversation } from '../../../shared/kinds/conversation-metadata.ts';
import { readMessageSent } from '../../../shared/kinds/message-sent.ts';

const RUNS = { numRuns: 1000 };
const RAW = new Set([...AUTOMATION_EVENT_RAW_MEMBERS, ...CREDENTIALS_RAW_MEMBERS]);

const READERS: readonly (readonly [Kind, (value: JsonValue) => Parsed<JsonObject>, valid: object])[] = [
  [
    'agent-metadata',
    readAgentItem,
    {
      eventId: 'e',
      externalAgentId: 'a',
      agentName: 'Ada',
      languages: ['en-GB'],
      concurrency: 1,
      ranking: 0,
      attributes: [{ name: 'n', value: 'v' }],
    },
  ],
  [
    'conversation-metadata',
    readConversation,
    {
      eventId: 'e',
      externalConversationId: 'c',
      lobName: 'Ü 😀',
      deviceType: 'PHONE',
      companySegment: ['a'],
      browserVersion: '1.2',
    },
  ],
  [
    'message-sent',
    readMessageSent,
    {
      messageId: 'm',
      conversationId: 'c',
      augmentationType: ['FREEHAND'],
      numEdits: 1,
      timeToAction: 1.5,
      selectedSuggestionText: 't',
      externalConversationId: 'c-1',
      occurredAt: '2026-01-02T03:04:05Z',
    },
  ],
  [
    'automation-events',
    readAutomationEvent,
    {
      conversationId: 'C',
      externalConversationId: 'c',
      type: 'reply',
      occurredAt: '2026-01-02T03:04:05Z',
      reply: { messageId: 'm', text: 't' },
      inputVariables: { a: { b: [1] } },
      currentTaskName: 't',
    },
  ],
  [
    'credentials',
    (value) => readCredentials(value, 'CONV') as unknown as Parsed<JsonObject>,
    { customerExternalId: 'c', auth: { token: 't', body: { a: 1 } }, streamId: null },
  ],
];

const nastyValue = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.double(),
  fc.constantFrom('\u0000', '\ud800', '', ' ', '__proto__', 2147483648, -1, 1e300, null),
);

/** Generates the valid record with some members replaced by arbitrary values. */
function changed(valid: object) {
  const names = [...Object.keys(valid), '__proto__', 'unknown'];
  return fc
    .array(fc.tuple(fc.constantFrom(...names), nastyValue), { maxLength: 3 })
    .map((changes) => JSON.stringify(Object.fromEntries([...Object.entries(valid), ...changes])));
}

function read(text: string): JsonValue {
  return readJson(Buffer.from(text), { rawMembers: RAW });
}

describe.each(READERS)('the reader of %s', (kind, readRecord, valid) => {
  it('accepts valid records', () => {
    expect(readRecord(read(JSON.stringify(valid)))).toMatchObject({ ok: true });
  });

  it('never throws, and describes problems without a value', () => {
    const planted = 'planted-value';
    fc.assert(
      fc.property(fc.oneof(changed(valid), fc.json(), fc.constant(`"${planted}"`)), (text) => {
        const parsed = readRecord(read(text.replaceAll('"t"', `"${planted}\\u0000"`)));
        if (parsed.ok) return;
        expect(parsed.details.length).toBeGreaterThan(0);
        for (const { message } of parsed.details) expect(message).not.toContain(planted);
      }),
      RUNS,
    );
  });

  it('returns records that pass through the log unchanged', () => {
    fc.assert(
      fc.property(changed(valid), (text) => {
        const parsed = readRecord(read(text));
        if (!parsed.ok) return;
        const record = {
          kind,
          tenantId: 'tenant',
          id: parsed.id ?? 'made',
          idGenerated: parsed.id === undefined,
          entity: parsed.entity,
          acceptedAtMs: 1_767_323_045_678,
          requestId: 'r',
          traceparent: undefined,
          contentHash: parsed.contentHash,
          data: parsed.record,
        };
        const decoded = decodeEvent(encodeEvent(record), kind);
        expect({ ...decoded, data: writeJson(decoded.data) }).toEqual({
          ...record,
          data: writeJson(record.data),
        });
      }),
      RUNS,
    );
  });

  // Credentials have no hash.
  if (kind === 'credentials') return;
  it('hashes the known members, without their order, the id and unknown members', () => {
    const idMember = kind === 'message-sent' ? 'messageId' : 'eventId';
    const ids =
      kind === 'automation-events'
        ? ['01ARZ3NDEKTSV4RRFFQ69G5FAV', '01BX5ZZKBKACTAV9WEVGEMMVRZ']
        : ['one', 'two'];
    const hashOf = (text: string) => {
      const parsed = readRecord(read(text));
      return parsed.ok ? parsed.contentHash : undefined;
    };
    fc.assert(
      fc.property(changed(valid), fc.constantFrom(...ids), fc.boolean(), (text, id, reverse) => {
        const hash = hashOf(text);
        if (hash === undefined) return;
        const members = Object.entries(JSON.parse(text) as object).filter(([name]) => name !== idMember);
        const other = [...(reverse ? members.reverse() : members), [idMember, id], ['moreOfIt', [1]]];
        expect(hashOf(JSON.stringify(Object.fromEntries(other)))).toBe(hash);
      }),
      RUNS,
    );
    // A known member that is omitted, or set to another valid value, changes the content.
    const full = hashOf(JSON.stringify(valid));
    for (const name of Object.keys(valid).filter((each) => each !== idMember)) {
      const { [name]: _, ...without } = valid as Record<string, unknown>;
      expect(hashOf(JSON.stringify(without)), name).not.toBe(full);
    }
  });
});

describe('the reader of timestamps', () => {
  /** Returns whether the bytes between others are a timestamp. */
  function isValid(text: string): boolean {
    const bytes = Buffer.from(`9${text}9`);
    return isTimestamp(bytes, 1, bytes.length - 1);
  }

  it('agrees with Date to the millisecond, and keeps nanoseconds', () => {
    const offset = fc.tuple(fc.constantFrom('+', '-'), fc.nat({ max: 23 }), fc.nat({ max: 59 }));
    fc.assert(
      fc.property(
        fc.date({
          min: new Date('1678-01-01T00:00:00Z'),
          max: new Date('2261-12-31T23:59:59.999Z'),
          noInvalidDate: true,
        }),
        fc.nat({ max: 999_999 }),
        offset,
        (date, beyondMs, [sign, hours, minutes]) => {
          const two = (value: number) => String(value).padStart(2, '0');
          const local = date.toISOString().slice(0, -1) + String(beyondMs).padStart(6, '0');
          const text = `${local}${sign}${two(hours)}:${two(minutes)}`;
          const shiftMs = (hours * 60 + minutes) * 60_000 * (sign === '-' ? 1 : -1);
          expect(parseTimestampNs(text)).toBe(
            BigInt(date.getTime() + shiftMs) * 1_000_000n + BigInt(beyondMs),
          );
          expect(isValid(text)).toBe(true);
        },
      ),
      RUNS,
    );
  });

  it('rejects dates that do not exist', () => {
    const two = (value: number) => String(value).padStart(2, '0');
    fc.assert(
      fc.property(
        fc.integer({ min: 1678, max: 2261 }),
        fc.nat({ max: 13 }),
        fc.nat({ max: 32 }),
        fc.nat({ max: 25 }),
        fc.nat({ max: 61 }),
        fc.nat({ max: 61 }),
        (year, month, day, hour, minute, second) => {
          const text = `${year}-${two(month)}-${two(day)}T${two(hour)}:${two(minute)}:${two(second)}Z`;
          const date = new Date(text);
          // Date accepts 24:00 and 30 February, but does not write them back unchanged.
          const real = !Number.isNaN(date.getTime()) && date.toISOString() === text.replace('Z', '.000Z');
          expect(parseTimestampNs(text) !== undefined).toBe(real);
          expect(isValid(text)).toBe(real);
        },
      ),
      RUNS,
    );
  });

  it('checks the bytes of any text with the same result', () => {
    const near = fc.stringMatching(/^[0-9TtZz:.+-]{0,40}$/);
    const valid = [
      '2026-01-31T23:59:59Z',
      '2024-02-29t00:00:00.123456789+23:59',
      '1900-02-28T00:00:00.1-00:00',
    ];
    const changed = fc
      .tuple(fc.constantFrom(...valid), fc.nat({ max: 35 }), fc.nat({ max: 2 }), near)
      .map(([text, at, removed, added]) => text.slice(0, at) + added.slice(0, 2) + text.slice(at + removed));
    fc.assert(
      fc.property(fc.oneof(changed, near, fc.string()), (text) => {
        expect(isValid(text)).toBe(parseTimestampNs(text) !== undefined);
      }),
      { numRuns: 5000 },
    );
  });
});
