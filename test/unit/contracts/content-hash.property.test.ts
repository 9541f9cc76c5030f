import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type AcceptedRecord,
  AUTOMATION_EVENT_RAW_MEMBERS,
  encodeEvent,
  encodeEventWith,
} from '../../../shared/contracts/event.ts';
import { freeForm, objectOf, stringField } from '../../../shared/contracts/fields.ts';
import { type JsonObject, type JsonValue, RawJson } from '../../../shared/contracts/json.ts';
import { type ParsedWithJson, parseRecord } from '../../../shared/contracts/parsed.ts';
import { readJson } from '../../../shared/contracts/read-json.ts';
import { readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { readAutomationEvent } from '../../../shared/kinds/automation-events.ts';
import { readConversation } from '../../../shared/kinds/conversation-metadata.ts';
import { readMessageSent } from '../../../shared/kinds/message-sent.ts';

const RUNS = { numRuns: 1000 };
const ULID = '01ARZ3NDEKTSV4RRFFQ69G5FAV';

/** Returns the JSON of a value, member by member. */
function jsonOf(value: JsonValue): string {
  if (value instanceof RawJson) return value.text;
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${jsonOf(member!)}`).join(',')}}`;
}

/** Returns SHA-256 over the JSON of the record without its id. */
function expectedHash(record: JsonObject, idMember: string): string {
  const { [idMember]: _id, ...content } = record;
  return createHash('sha256').update(jsonOf(content)).digest('hex');
}

/** Expects the hash and the JSON of a valid record to be those of its members. */
function expectHash(parsed: ParsedWithJson<JsonObject>, idMember: string): void {
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.details));
  expect(parsed.contentHash).toBe(expectedHash(parsed.record, idMember));
  expect(parsed.json).toBe(jsonOf(parsed.record));
}

/** Generates texts like the JSON of a member with this name and value. */
function textLike(name: string, value: fc.Arbitrary<string>) {
  return value.chain((text) => {
    const member = `${JSON.stringify(name)}:${JSON.stringify(text)}`;
    return fc.oneof(
      fc.constantFrom(member, `${member},`, `,${member}`, `"${member}`, `\\"${name}\\":\\"${text}\\"`),
      fc.constantFrom(name, `"${name}"`, `"${name}":`, `\\`, `","${name}":"${text}`, text),
      fc.string(),
    );
  });
}

const hardId = fc.oneof(
  fc.constantFrom('m', '"', '\\', '\\"', '","messageId":"m', 'é😀', '\u2028', '\u007f', '\n', '$&', ':'),
  fc.string({ minLength: 1, maxLength: 20 }),
);

describe('the content hash', () => {
  const text = stringField({ lengthMax: 1000 }).nullish();
  const schemas = {
    first: objectOf({ id: text, a: text, raw: freeForm.nullish() }),
    'in the middle': objectOf({ a: text, id: text, b: text, raw: freeForm.nullish() }),
    last: objectOf({ a: text, b: text, id: text }),
    'the only member': objectOf({ id: text }),
  };

  it.each(Object.entries(schemas))('covers all members but an id that is %s', (_where, schema) => {
    const value = fc.option(textLike('id', hardId), { nil: null });
    const members = fc.record({ a: value, b: value }, { requiredKeys: [] });
    const id = fc.oneof(hardId, fc.constant(null), fc.constant(undefined));
    fc.assert(
      fc.property(members, id, fc.boolean(), (others, ownId, keepNull) => {
        const record = readJson(Buffer.from(JSON.stringify({ ...others, id: ownId })), {
          rawMembers: new Set(),
        });
        const parsed = parseRecord(record, { schema, idMember: 'id', keepNull, entityMembers: [] });
        if (parsed.ok) expectHash(parsed as ParsedWithJson<JsonObject>, 'id');
      }),
      RUNS,
    );
  });

  it('of MessageSent covers ids that need escaping, and texts like the id', () => {
    const id = hardId.filter(
      (value) => readMessageSent({ messageId: value, augmentationType: ['FREEHAND'] }).ok,
    );
    const record = id.chain((messageId) => {
      const near = textLike('messageId', fc.constant(messageId)).map((value) => value.slice(0, 200));
      return fc.record({
        messageId: fc.constant(messageId),
        conversationId: near,
        selectedSuggestionText: near,
      });
    });
    let accepted = 0;
    fc.assert(
      fc.property(record, (members) => {
        const parsed = readMessageSent({ ...members, augmentationType: ['FREEHAND'] });
        if (!parsed.ok) return;
        accepted += 1;
        expectHash(parsed as ParsedWithJson<JsonObject>, 'messageId');
      }),
      RUNS,
    );
    expect(accepted).toBeGreaterThan(100);
  });

  it.each([
    '{"eventId":"ID"}',
    '{ "a":1,"eventId":"ID","b":{"eventId":"ID"}}',
    '{"x":"\\"eventId\\":\\"ID\\""}',
  ])('of automation events covers the free-form object %s', (variables) => {
    const raw = variables.replaceAll('ID', ULID);
    const event =
      `{"inputVariables":${raw},"eventId":"${ULID}","conversationId":"C","externalConversationId":"c",` +
      `"type":"transferToSystem","occurredAt":"2026-01-02T03:04:05Z","transferToSystem":{"referenceVariables":${raw}}}`;
    const value = readJson(Buffer.from(event), { rawMembers: AUTOMATION_EVENT_RAW_MEMBERS });
    expectHash(readAutomationEvent(value) as ParsedWithJson<JsonObject>, 'eventId');
  });

  it('of merge patches covers all members but an id that is null', () => {
    const members = { eventId: null, lobName: '"eventId":null', groupName: null };
    expectHash(readAgentItem({ ...members, externalAgentId: 'a' }) as ParsedWithJson<JsonObject>, 'eventId');
    expectHash(
      readConversation({ ...members, externalConversationId: 'c' }) as ParsedWithJson<JsonObject>,
      'eventId',
    );
  });
});

describe('the event of a record', () => {
  const text = fc.oneof(fc.string({ unit: 'binary', minLength: 1 }), hardId);

  it('is JSON with the same values, whatever characters they contain', () => {
    fc.assert(
      fc.property(
        text,
        text,
        text,
        text,
        fc.option(text, { nil: undefined }),
        (id, entity, tenantId, requestId, trace) => {
          const record: AcceptedRecord = {
            kind: 'message-sent',
            tenantId,
            id,
            idGenerated: false,
            entity,
            acceptedAtMs: 1_767_323_045_678,
            requestId,
            traceparent: trace,
            contentHash: trace,
            data: { text: id, [entity]: 1 },
          };
          const expected = {
            specversion: '1.0',
            id,
            source: `/tenants/${tenantId}/message-sent`,
            type: 'sluice.message-sent.v1',
            subject: entity,
            time: '2026-01-02T03:04:05.678Z',
            datacontenttype: 'application/json',
            tenantid: tenantId,
            requestid: requestId,
            ...(trace === undefined ? {} : { traceparent: trace, contenthash: trace }),
            data: record.data,
          };
          const encoded = encodeEvent(record);
          expect(JSON.parse(encoded.toString())).toEqual(expected);
          const json = JSON.stringify(record.data);
          expect(encodeEventWith(record, json)).toEqual(encoded);
          expect(encodeEventWith(record, Buffer.from(json))).toEqual(encoded);
        },
      ),
      RUNS,
    );
  });

  it('has the time at which its record was accepted, also after other times', () => {
    const at = (acceptedAtMs: number) => {
      const record = {
        kind: 'message-sent',
        tenantId: 't',
        id: 'i',
        idGenerated: true,
        entity: 'e',
        requestId: 'r',
      };
      return JSON.parse(encodeEvent({ ...record, acceptedAtMs, data: {} } as AcceptedRecord).toString()).time;
    };
    const times = [0, 1, 0, 1_767_323_045_678, 1_767_323_045_678, 1];
    expect(times.map(at)).toEqual(times.map((ms) => new Date(ms).toISOString()));
  });
});
