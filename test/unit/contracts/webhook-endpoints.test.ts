import { describe, expect, test } from 'vitest';
import {
  readEndpointChange,
  readEndpointRequest,
  readSecretRotation,
  SECRET_PATTERN,
} from '../../../shared/contracts/webhook-endpoints.ts';
import { filterProblem, selectsType, storedFilters } from '../../../shared/contracts/webhook-filters.ts';
import { formatWebhookSecret, newWebhookSecret } from '../../../shared/webhooks/secrets.ts';

const url = 'https://example.com/';

function problemsOf(body: Parameters<typeof readEndpointRequest>[0]) {
  const read = readEndpointRequest({ url, ...body });
  return read.ok ? [] : read.details.map(({ path, message }) => [path, message]);
}

test('the pattern of a secret in the schema permits what is accepted', () => {
  const pattern = new RegExp(SECRET_PATTERN);
  for (let bytes = 16; bytes <= 72; bytes += 1) {
    const base64 = Buffer.alloc(bytes, 0xff).toString('base64');
    for (const text of [
      base64,
      base64.replace(/=+$/, ''),
      `${base64}=`,
      base64.slice(0, -1),
      base64.replace(/.(=*)$/, '_$1'),
    ]) {
      const accepted = problemsOf({ secret: `whsec_${text}` }).length === 0;
      expect([text, pattern.test(`whsec_${text}`)]).toEqual([text, accepted]);
    }
  }
});

describe('a new webhook endpoint', () => {
  test('has defaults', () => {
    expect(readEndpointRequest({ url })).toEqual({
      ok: true,
      request: {
        url,
        eventTypes: null,
        description: null,
        headers: null,
        ratePerSecond: null,
        retrySchedule: 'standard',
        secret: undefined,
      },
    });
  });

  test('has no members but those of the request', () => {
    expect(problemsOf({ eventType: ['automation.reply'], bogus: 1 })).toEqual([
      ['eventType', 'is not a member of this request: the nearest is eventTypes'],
      ['bogus', expect.stringMatching(/: it must be one of url, eventTypes, .*secret$/)],
    ]);
    const change = readEndpointChange({ description: 'CRM', secret: 'x', state: 'paused' });
    expect(change).toMatchObject({
      ok: false,
      details: [
        { path: 'secret', message: expect.stringContaining('/rotate') },
        { path: 'state', message: expect.stringMatching(/pause.*resume.*enable/) },
      ],
    });
    expect(readSecretRotation({ overlap: 5 })).toMatchObject({ ok: false, details: [{ path: 'overlap' }] });
    expect(readEndpointChange(JSON.parse(`{"__proto__": 1, "${'x'.repeat(1000)}": 1}`))).toMatchObject({
      details: [{ path: '__proto__' }, { path: 'x'.repeat(100) }],
    });
  });

  test('may have its own secret of 24 to 64 bytes', () => {
    const secret = newWebhookSecret();
    expect(readEndpointRequest({ url, secret: formatWebhookSecret(secret) })).toMatchObject({
      request: { secret },
    });
    for (const bytes of [23, 65]) {
      expect(problemsOf({ secret: `whsec_${Buffer.alloc(bytes, 1).toString('base64')}` })).toEqual([
        ['secret', 'must be whsec_ and the base64 of 24 to 64 bytes'],
      ]);
    }
    expect(problemsOf({ secret: 'too short' })).toHaveLength(1);
    const whole = Buffer.alloc(32, 1).toString('base64');
    expect(problemsOf({ secret: `whsec_${whole.replace('=', '')}` })).toEqual([]);
    for (const cut of [
      whole.slice(0, 41),
      `${whole.slice(0, 42)}F=`,
      `${whole}=`,
      `${whole.slice(0, 40)}==`,
    ]) {
      expect(problemsOf({ secret: `whsec_${cut}` }), cut).toHaveLength(1);
    }
  });

  test('names the nearest type of an unknown one', () => {
    expect(problemsOf({ eventTypes: ['automation.reply', 'automation.repyl'] })).toEqual([
      ['eventTypes[1]', 'is not a known type: the nearest is automation.reply'],
    ]);
    expect(problemsOf({ eventTypes: ['automation.transferred_*'] })).toEqual([
      ['eventTypes[0]', 'must be a type, or one of *, automation.*, conversation.*, ingestion.*, webhook.*'],
    ]);
    expect(filterProblem('automation.x')).toBe('is not a known type: the nearest is automation.*');
    for (const far of ['bad.type', 'x'.repeat(1_000_000)]) {
      expect(filterProblem(far)).toMatch(/it must be one of automation\.processing_started, .*webhook\.\*$/);
    }
  });

  test.each([
    'Content-Type',
    'content-length',
    'Webhook-Signature',
    'webhook-anything',
    'Host',
    'user-agent',
    'connection',
    'transfer-encoding',
    'Proxy-Authorization',
  ])('must not set the header %s', (name) => {
    expect(problemsOf({ headers: { [name]: 'x' } })).toEqual([
      [`headers.${name}`, 'is a header that Sluice sets itself'],
    ]);
  });

  test('may have other headers of visible characters', () => {
    expect(problemsOf({ headers: { Authorization: 'Bearer a b', 'X-Key': 'ü' } })).toEqual([
      ['headers.X-Key', 'must be visible ASCII characters, with spaces only between them'],
    ]);
    expect(problemsOf({ headers: { 'X-A': 'a\r\nX-B: b' } })).toHaveLength(1);
    expect(problemsOf({ headers: { 'a b': 'x' } })[0]![0]).toBe('headers');
    expect(problemsOf({ headers: { 'X-A': '1', 'x-a': '2' } })).toEqual([['headers.x-a', 'is given twice']]);
    const many = Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`x-${i}`, 'v']));
    expect(problemsOf({ headers: many })).toEqual([['headers', 'must have at most 20 headers']]);
    expect(problemsOf({ headers: [] })).toEqual([['headers', 'must be an object']]);
    expect(problemsOf({ headers: { 'X-A': 1 } })).toEqual([['headers.X-A', 'must be a string']]);
  });

  test('has a rate from 1 to 1000 per second, and one of three schedules', () => {
    expect(problemsOf({ ratePerSecond: 0, retrySchedule: 'long' })).toEqual([
      ['ratePerSecond', 'must be a whole number from 1 to 1000'],
      ['retrySchedule', 'must be one of standard, short, none'],
    ]);
  });
});

describe('a change of a webhook endpoint', () => {
  test('has only the members that it was given', () => {
    expect(readEndpointChange({ description: 'x' })).toEqual({ ok: true, request: { description: 'x' } });
    const cleared = {
      eventTypes: null,
      description: null,
      headers: {},
      ratePerSecond: null,
      retrySchedule: null,
    };
    expect(readEndpointChange(cleared)).toEqual({
      ok: true,
      request: { ...cleared, headers: null, retrySchedule: 'standard' },
    });
  });

  test('must have a known member', () => {
    expect(readEndpointChange({ uri: url })).toMatchObject({ ok: false, details: [{ path: 'uri' }] });
    expect(readEndpointChange({})).toMatchObject({ ok: false, details: [{ path: 'body' }] });
    expect(readEndpointChange({ url: null })).toMatchObject({ ok: false, details: [{ path: 'url' }] });
  });
});

test('a rotation overlaps for a day by default', () => {
  expect(readSecretRotation({})).toEqual({ ok: true, request: { overlapMs: 86_400_000, secret: undefined } });
  expect(readSecretRotation({ overlapSeconds: -1 })).toMatchObject({ ok: false });
});

describe('filters by type', () => {
  test('of a group are stored with its known types, and select later ones', () => {
    const stored = storedFilters(['conversation.*', 'webhook.test']);
    expect(stored).toEqual({
      eventTypes: ['conversation.credentials_stored', 'webhook.test'],
      eventFilters: ['conversation.*', 'webhook.test'],
    });
    expect(selectsType(stored, 'conversation.later')).toBe(true);
    expect(selectsType(stored, 'webhook.later')).toBe(false);
  });

  test('of types are stored as they are', () => {
    expect(storedFilters(['webhook.test'])).toEqual({ eventTypes: ['webhook.test'], eventFilters: null });
    expect(storedFilters(['*'])).toEqual({ eventTypes: null, eventFilters: null });
    expect(selectsType({ eventTypes: null, eventFilters: null }, 'any.type')).toBe(true);
  });
});
