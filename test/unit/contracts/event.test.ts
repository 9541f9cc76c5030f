import { describe, expect, it } from 'vitest';
import {
  type AcceptedRecord,
  decodeEvent,
  EventError,
  encodeEvent,
} from '../../../shared/contracts/event.ts';
import { RawJson, writeJson } from '../../../shared/contracts/json.ts';

const record: AcceptedRecord = {
  kind: 'automation-events',
  tenantId: 'T1',
  id: '01KB2Q5X3T9W1V7Y5Z8C4D6E2F',
  idGenerated: false,
  entity: 'x:1 ü',
  acceptedAtMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
  requestId: 'r-1',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  contentHash: 'ab'.repeat(32),
  data: { externalConversationId: 'x:1 ü', inputVariables: new RawJson('{ "n":90071992547409931 }') },
};

describe('records in the log', () => {
  it('are CloudEvents 1.0 that any consumer can read', () => {
    expect(JSON.parse(encodeEvent(record).toString())).toMatchObject({
      specversion: '1.0',
      id: record.id,
      source: '/tenants/T1/automation-events',
      type: 'sluice.automation-events.v1',
      subject: 'x:1 ü',
      time: '2026-01-02T03:04:05.678Z',
      datacontenttype: 'application/json',
      tenantid: 'T1',
      requestid: 'r-1',
      traceparent: record.traceparent,
      contenthash: record.contentHash,
    });
  });

  it('are decoded as they were encoded, including free-form bytes', () => {
    const decoded = decodeEvent(encodeEvent(record), 'automation-events');
    expect(decoded).toEqual({ ...record, data: expect.anything() });
    expect(writeJson(decoded.data)).toBe(
      '{"externalConversationId":"x:1 ü","inputVariables":{ "n":90071992547409931 }}',
    );
  });

  it('may omit optional members, and may have members of later releases', () => {
    const { traceparent, contentHash, ...least } = record;
    const event = JSON.parse(encodeEvent({ ...least, idGenerated: true }).toString());
    const decoded = decodeEvent(
      Buffer.from(JSON.stringify({ ...event, added: { later: 1 } })),
      'automation-events',
    );
    expect(decoded).toMatchObject({ idGenerated: true, traceparent: undefined, contentHash: undefined });
  });

  it.each([
    ['not JSON', 'x', 'undecodable'],
    ['JSON that is no object', '[1]', 'undecodable'],
    ['nothing', '', 'undecodable'],
    ['another type', JSON.stringify({ type: 'other' }), 'undecodable'],
    ['another kind', encodeEvent({ ...record, kind: 'credentials' }).toString(), 'undecodable'],
    ['a newer version', encodeEvent(record).toString().replace('.v1"', '.v2"'), 'unknown-version'],
    ['no tenant', encodeEvent(record).toString().replace('tenantid', 'x'), 'undecodable'],
    ['a bad time', encodeEvent(record).toString().replace('2026-01', 'never'), 'undecodable'],
  ])('are rejected if they are %s', (_, text, reason) => {
    expect(() => decodeEvent(Buffer.from(text), 'automation-events')).toThrow(EventError);
    try {
      decodeEvent(Buffer.from(text), 'automation-events');
    } catch (error) {
      expect((error as EventError).reason).toBe(reason);
    }
  });

  it('report their tenant and id even if they cannot be decoded', () => {
    const newer = Buffer.from(encodeEvent(record).toString().replace('.v1"', '.v2"'));
    expect(() => decodeEvent(newer, 'automation-events')).toThrow(
      expect.objectContaining({ reason: 'unknown-version', tenantId: 'T1', id: record.id }),
    );
  });
});
