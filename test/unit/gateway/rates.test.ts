import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { createBuckets, secondsUntil, takeFromAll } from '../../../shared/http/rates/buckets.ts';
import type { ApiKey } from '../../../shared/postgres/api-key-lookup.ts';
import { createGatewayApp, type GatewayAppOptions, NOW_MS } from '../../support/gateway-app.ts';

const STATE = '/automation-agent/v1/state?externalId=c';
const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const EVENTS = '/automation-agent/v1/events';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';

/** Every operation with a request and the status of its answer. */
const OPERATIONS: readonly [name: string, path: string, body: unknown, status: number][] = [
  ['state', STATE, undefined, 404],
  [
    'credentials',
    '/conversation/v1/conversations/C/authenticate',
    { customerExternalId: 'c', token: 't' },
    204,
  ],
  ['agents', AGENTS, { items: [{ externalAgentId: 'a' }] }, 200],
  ['conversation', '/metadata-ingestion/v1/single-convo-metadata', { externalConversationId: 'c' }, 200],
  ['message', MESSAGE, { messageId: 'm', augmentationType: ['FREEHAND'] }, 200],
  [
    'messages',
    '/compose-assist/v1/analytics/many-message-sent',
    { items: [{ messageId: 'm', augmentationType: ['FREEHAND'] }] },
    200,
  ],
  [
    'events',
    EVENTS,
    {
      items: [
        {
          conversationId: 'C',
          externalConversationId: 'c',
          type: 'processingEnd',
          occurredAt: '2026-03-01T00:00:00Z',
        },
      ],
    },
    200,
  ],
];

type Limits = Partial<ApiKey['limits']>;

function gatewayOf(limits: Limits, options: GatewayAppOptions = {}) {
  const clock = { ms: NOW_MS, nowMs: () => clock.ms };
  const key = (more: Limits = {}) => ({
    limits: {
      tenantRate: 'none',
      keyRate: undefined,
      byteRate: 'none',
      dailyQuota: undefined,
      ...limits,
      ...more,
    } as const,
  });
  const gateway = createGatewayApp({ clock, keys: { 'key-1': key(), 'key-2': key() }, ...options });
  const send = (path: string, body: unknown, id = 'key-1') =>
    body === undefined
      ? gateway.get(path, { 'service-api-id': id })
      : gateway.post(path, body, { 'service-api-id': id });
  const agents = (count: number, from = 0) =>
    send(AGENTS, { items: Array.from({ length: count }, (_, i) => ({ externalAgentId: `a-${from + i}` })) });
  return { ...gateway, clock, key, send, agents };
}

const fields = ({ headers }: Response) => [headers.get('ratelimit-policy'), headers.get('ratelimit')];

async function refusalOf(response: Response) {
  const { error } = (await response.json()) as {
    error: { code: string; message: string; details: { path: string; message: string }[] };
  };
  return {
    status: response.status,
    code: error.code,
    by: error.details.map(({ path, message }) => `${path}: ${message}`),
    retryAfter: response.headers.get('retry-after'),
  };
}

describe('the request rate', () => {
  it.each(OPERATIONS)('admits exactly its number of requests: %s', async (_name, path, body, status) => {
    const { send, clock } = gatewayOf({ tenantRate: 5 });
    const once = async () => (await send(path, body)).status;
    for (let i = 0; i < 10; i++) expect(await once()).toBe(status);
    expect(await once()).toBe(429);
    clock.ms += 199;
    expect(await once()).toBe(429);
    clock.ms += 1;
    expect(await once()).toBe(status);
    expect(await once()).toBe(429);
    clock.ms += 60_000;
    for (let i = 0; i < 10; i++) expect(await once()).toBe(status);
    expect(await once()).toBe(429);
  });

  it('is reported in every answer, with Retry-After in a refusal', async () => {
    const { send, clock } = gatewayOf({ tenantRate: 5 });
    const first = await send(STATE, undefined);
    expect(fields(first)).toEqual(['"requests";q=10;w=2', '"requests";r=9;t=1']);
    expect(first.headers.get('retry-after')).toBeNull();
    clock.ms += 100;
    expect(fields(await send(STATE, undefined))[1]).toBe('"requests";r=8;t=1');
    for (let i = 0; i < 8; i++) await send(STATE, undefined);
    const refused = await send(STATE, undefined);
    expect(fields(refused)).toEqual(['"requests";q=10;w=2', '"requests";r=0;t=1']);
    expect(await refusalOf(refused)).toEqual({
      status: 429,
      code: '429-01',
      by: ['requests: requests of one operation are limited to 5 per second'],
      retryAfter: '1',
    });
  });

  it('is checked after the API key and scope, and before the body, path and query', async () => {
    const { app, credentials, send } = gatewayOf({ tenantRate: 1 });
    const unreadable = () =>
      new Request(`http://localhost${MESSAGE}`, {
        method: 'POST',
        headers: credentials,
        body: new ReadableStream({
          pull() {
            throw new Error('the body was read');
          },
        }),
        duplex: 'half',
      } as RequestInit);
    await send(MESSAGE, {});
    await send(MESSAGE, {});
    expect((await app.fetch(unreadable())).status).toBe(429);
    const malformed = '/conversation/v1/conversations/lower/authenticate';
    expect((await send(malformed, {})).status).toBe(400);
    expect((await send(malformed, {})).status).toBe(400);
    expect((await send(malformed, {})).status).toBe(429);
    const wrong = await send(MESSAGE, {}, 'unknown');
    expect(wrong.status).toBe(401);
    expect(fields(wrong)).toEqual([null, null]);
  });

  it('counts each operation separately, and all keys of a tenant together', async () => {
    const { send } = gatewayOf({ tenantRate: 1 });
    const status = async (path: string, body: unknown, id: string) => (await send(path, body, id)).status;
    expect(await status(STATE, undefined, 'key-1')).toBe(404);
    expect(await status(STATE, undefined, 'key-2')).toBe(404);
    expect(await status(STATE, undefined, 'key-1')).toBe(429);
    expect(await status(STATE, undefined, 'key-2')).toBe(429);
    expect(await status(MESSAGE, {}, 'key-1')).toBe(422);
  });

  it('of a key is lower, and leaves the rest to other keys of the tenant', async () => {
    const { send, key } = gatewayOf({}, {});
    const { send: limited } = gatewayOf(
      {},
      {
        keys: {
          'key-1': key({ tenantRate: 3, keyRate: 1 }),
          'key-2': key({ tenantRate: 3 }),
        },
      },
    );
    const status = async (id: string) => (await limited(STATE, undefined, id)).status;
    expect(fields(await limited(STATE, undefined))).toEqual([
      '"requests";q=6;w=2, "key-requests";q=2;w=2',
      '"requests";r=5;t=1, "key-requests";r=1;t=1',
    ]);
    expect(await status('key-1')).toBe(404);
    const refused = await limited(STATE, undefined);
    expect((await refusalOf(refused)).by).toEqual([
      'key-requests: requests of one operation are limited to 1 per second with this key',
    ]);
    // The refusal for the key took nothing from the tenant.
    for (let i = 0; i < 4; i++) expect(await status('key-2')).toBe(404);
    expect(await status('key-2')).toBe(429);
    expect((await send(STATE, undefined)).status).toBe(404);
  });

  it('of a key applies if the tenant has none, and the tenant’s if the key’s is higher', async () => {
    const { key } = gatewayOf({});
    const { send } = gatewayOf(
      {},
      { keys: { 'key-1': key({ keyRate: 1 }), 'key-2': key({ tenantRate: 1, keyRate: 100 }) } },
    );
    for (const id of ['key-1', 'key-2']) {
      const statuses = [];
      for (let i = 0; i < 3; i++) statuses.push((await send(STATE, undefined, id)).status);
      expect(statuses).toEqual([404, 404, 429]);
    }
  });

  it('is 1000 per second with a burst of 2000 by default, and unlimited for a tenant with none', async () => {
    const standard = gatewayOf({ tenantRate: 'default' });
    expect(fields(await standard.send(STATE, undefined))).toEqual([
      '"requests";q=2000;w=2',
      '"requests";r=1999;t=1',
    ]);
    const none = gatewayOf({});
    expect(fields(await none.agents(1))).toEqual([null, null]);
  });

  it('is divided between gateways, with at least 1 request each', async () => {
    const four = gatewayOf({ tenantRate: 100 }, { gateways: 4 });
    expect(fields(await four.send(STATE, undefined))[0]).toBe('"requests";q=50;w=2');
    const many = gatewayOf({ tenantRate: 1 }, { gateways: 10 });
    const first = await many.send(STATE, undefined);
    expect([first.status, ...fields(first)]).toEqual([404, '"requests";q=1;w=10', '"requests";r=0;t=10']);
    expect(await refusalOf(await many.send(STATE, undefined))).toMatchObject({ retryAfter: '10' });
    many.clock.ms += 9999;
    expect((await many.send(STATE, undefined)).status).toBe(429);
    many.clock.ms += 1;
    expect((await many.send(STATE, undefined)).status).toBe(404);
  });
});

describe('the record rate', () => {
  it('is 20 times the request rate, counts valid records, and refuses a request as a whole', async () => {
    const { agents, send, clock, publisher } = gatewayOf({ tenantRate: 100 });
    for (let i = 0; i < 3; i++) expect((await agents(1000, i * 1000)).status).toBe(200);
    const items = [...Array(999).fill({ externalAgentId: 'a' }), { externalAgentId: '' }];
    const passed = await send(AGENTS, { items });
    expect([passed.status, ...fields(passed)]).toEqual([
      200,
      '"requests";q=200;w=2, "records";q=4000;w=2;qu="records"',
      '"requests";r=196;t=1, "records";r=1;t=2',
    ]);
    const calls = publisher.calls.length;
    const refused = await agents(2);
    expect(fields(refused)[1]).toBe('"requests";r=195;t=1, "records";r=1;t=1');
    expect(await refusalOf(refused)).toEqual({
      status: 429,
      code: '429-01',
      by: ['records: records are limited to 2000 per second'],
      retryAfter: '1',
    });
    expect(publisher.calls).toHaveLength(calls);
    expect((await agents(1)).status).toBe(200);
    expect((await agents(1)).status).toBe(429);
    // All operations share the rate; refused records cost nothing.
    expect((await send(MESSAGE, { messageId: 'm', augmentationType: ['FREEHAND'] })).status).toBe(429);
    expect((await send(AGENTS, { items: [{ externalAgentId: '' }] })).status).toBe(400);
    expect((await send(MESSAGE, {})).status).toBe(422);
    clock.ms += 499;
    expect((await agents(999)).status).toBe(429);
    clock.ms += 1;
    expect((await agents(1000)).status).toBe(200);
    expect((await agents(1)).status).toBe(429);
  });

  it.each(OPERATIONS.slice(1))('refuses one record over the rate: %s', async (_name, path, body, status) => {
    const { agents, send } = gatewayOf({ tenantRate: 2 });
    expect((await agents(999)).status).toBe(200);
    expect((await send(path, body)).status).toBe(status);
    const refused = await refusalOf(await send(path, body));
    expect(refused).toMatchObject({ code: '429-01', by: ['records: records are limited to 40 per second'] });
  });

  it('admits the largest request however small the share is, and then reports how long to wait', async () => {
    const { agents } = gatewayOf({ tenantRate: 1 }, { gateways: 4 });
    expect((await agents(1000)).status).toBe(200);
    const { key } = gatewayOf({});
    const other = gatewayOf({}, { keys: { 'key-1': key({ tenantRate: 2 }) }, gateways: 2 });
    expect((await other.agents(1000)).status).toBe(200);
    // This gateway's share is 20 records per second.
    expect(await refusalOf(await other.agents(1000))).toMatchObject({ retryAfter: '50' });
  });
});

describe('the byte rate', () => {
  const KIB = 1024;
  const MIB = 1024 * KIB;
  /** Returns a batch of agents of `bytes` bytes, most of them in an unknown member. */
  const padded = (bytes: number) => {
    const body = (padding: string) => JSON.stringify({ items: [{ externalAgentId: 'a' }], padding });
    return body('x'.repeat(bytes - body('').length));
  };
  const gzip = { 'content-encoding': 'gzip' };

  it('counts unpacked bodies, whatever the answer, and refuses before reading a body', async () => {
    const { post, clock } = gatewayOf({ byteRate: 2 * MIB });
    const passed = await post(AGENTS, padded(3 * MIB));
    expect([passed.status, ...fields(passed)]).toEqual([
      200,
      '"bytes";q=4194304;w=2;qu="content-bytes"',
      '"bytes";r=1048576;t=2',
    ]);
    const unreadable = await post(AGENTS, gzipSync(Buffer.alloc(MIB - 1, 'x')), gzip);
    expect([unreadable.status, fields(unreadable)[1]]).toEqual([400, '"bytes";r=1;t=2']);
    const refused = await post(AGENTS, padded(2 * KIB), { 'content-length': String(2 * KIB) });
    expect(await refusalOf(refused)).toEqual({
      status: 429,
      code: '429-01',
      by: ['bytes: bytes of bodies, as unpacked, are limited to 2097152 per second'],
      retryAfter: '1',
    });
    expect(fields(refused)).toEqual(['"bytes";q=4194304;w=2;qu="content-bytes"', '"bytes";r=1;t=1']);
    clock.ms += 1000;
    expect((await post(AGENTS, padded(2 * MIB))).status).toBe(200);
  });

  it('refuses a gzip body larger than what is left before unpacking it', async () => {
    const { post, clock } = gatewayOf({ byteRate: 2 * MIB });
    expect((await post(AGENTS, padded(3 * MIB))).status).toBe(200);
    const refused = await post(AGENTS, gzipSync(padded(3 * MIB)), gzip);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    expect(fields(refused)[1]).toBe('"bytes";r=1048576;t=1');
    clock.ms += 1000;
    const passed = await post(AGENTS, gzipSync(padded(3 * MIB)), gzip);
    expect([passed.status, fields(passed)[1]]).toEqual([200, '"bytes";r=0;t=2']);
  });

  it('admits as many concurrent gzip bodies as fit, with a correct Retry-After', async () => {
    const { post, clock } = gatewayOf({ byteRate: 2 * MIB });
    const send = () => post(AGENTS, gzipSync(padded(MIB)), gzip);
    const answers = await Promise.all(Array.from({ length: 12 }, send));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(4);
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(8);
    clock.ms += Number(refused.at(-1)!.headers.get('retry-after')) * 1000;
    expect((await send()).status).toBe(200);
  });

  it('admits concurrent small gzip bodies whose sum fits', async () => {
    const { post } = gatewayOf({ byteRate: 2 * MIB });
    const answers = await Promise.all(
      Array.from({ length: 400 }, () => post(AGENTS, gzipSync(padded(10 * KIB)), gzip)),
    );
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    expect(fields(await post(AGENTS, gzipSync(padded(10 * KIB)), gzip))[1]).toBe(
      `"bytes";r=${4 * MIB - 401 * 10 * KIB};t=2`,
    );
  });

  it('admits bodies of unknown size that have begun, and makes later ones wait', async () => {
    const { post, clock } = gatewayOf({ byteRate: 2 * MIB });
    const send = () => post(AGENTS, padded(3 * MIB));
    const answers = await Promise.all([send(), send(), send()]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const refused = await post(MESSAGE, { messageId: 'm' }, { 'content-length': '17' });
    // 5 MiB below 0, at 2 MiB per second.
    expect(await refusalOf(refused)).toMatchObject({ status: 429, retryAfter: '3' });
    const waits = Number((await send()).headers.get('retry-after'));
    clock.ms += waits * 1000 - 1001;
    expect((await post(AGENTS, padded(4 * MIB), { 'content-length': String(4 * MIB) })).status).toBe(429);
    clock.ms += 1001;
    expect((await post(AGENTS, padded(4 * MIB), { 'content-length': String(4 * MIB) })).status).toBe(200);
  });

  it('bounds how far bodies of unknown size overdraw it', async () => {
    const { post, clock } = gatewayOf({ byteRate: 2 * MIB });
    // Before unpacking, only the size of the last gzip member is known, and that member is empty.
    const hidden = Buffer.concat([gzipSync(padded(4 * MIB)), gzipSync('')]);
    const answers = await Promise.all(Array.from({ length: 30 }, () => post(AGENTS, hidden, gzip)));
    expect(answers.filter(({ status }) => status === 429).length).toBeGreaterThanOrEqual(18);
    const refused = await post(AGENTS, hidden, gzip);
    // At most 8 bodies overdraw the limit, each by at most the largest body.
    const waits = Number(refused.headers.get('retry-after'));
    expect(waits).toBeGreaterThan(2);
    expect(waits).toBeLessThanOrEqual((8 * 4 + 4) / 2);
    clock.ms += waits * 1000;
    expect((await post(AGENTS, hidden, gzip)).status).toBe(200);
  });

  it('is refunded what a body does not use: refused for memory, or with broken gzip', async () => {
    const left = async ({ post }: ReturnType<typeof gatewayOf>, ...args: Parameters<typeof post>) => {
      const { status, headers } = await post(...args);
      return [status, Number(/r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1])];
    };
    const limits = { byteRate: 2 * MIB };
    const noRoom = { bodyBytesMax: 100 * KIB };
    const plain = padded(MIB);
    expect(await left(gatewayOf(limits, noRoom), AGENTS, plain)).toEqual([503, 4 * MIB]);
    expect(
      await left(gatewayOf(limits, noRoom), AGENTS, plain, { 'content-length': String(plain.length) }),
    ).toEqual([503, 4 * MIB]);
    // The part that was unpacked counts.
    const [status, bytes] = await left(gatewayOf(limits, noRoom), AGENTS, gzipSync(plain), gzip);
    expect(status).toBe(503);
    expect(bytes).toBeGreaterThan(3.8 * MIB);
    expect(bytes).toBeLessThan(4 * MIB);
    const checksumAndSize = Buffer.from([0, 0, 0, 0, 0, 0, 16, 0]);
    const broken = Buffer.concat([gzipSync(padded(100 * KIB)).subarray(0, -8), checksumAndSize]);
    const [unreadable, rest] = await left(gatewayOf(limits), AGENTS, broken, gzip);
    expect(unreadable).toBe(400);
    expect(rest).toBeGreaterThanOrEqual(4 * MIB - 100 * KIB);
    expect(rest).toBeLessThan(4 * MIB - 50 * KIB);
  });

  it('counts all keys and operations of a tenant together', async () => {
    const { post } = gatewayOf({ byteRate: 2 * MIB });
    expect((await post(AGENTS, padded(4 * MIB), { 'service-api-id': 'key-1' })).status).toBe(200);
    const refused = await post(MESSAGE, { messageId: 'm' }, { 'service-api-id': 'key-2' });
    expect(refused.status).toBe(429);
  });

  it('is 20 MiB per second with a burst of 40 MiB by default, divided between gateways, at least 1 body', async () => {
    const policyOf = async (byteRate: Limits['byteRate'], gateways: number) =>
      fields(await gatewayOf({ byteRate } as Limits, { gateways }).agents(1))[0];
    expect(await policyOf('default', 1)).toBe('"bytes";q=41943040;w=2;qu="content-bytes"');
    expect(await policyOf('default', 4)).toBe('"bytes";q=10485760;w=2;qu="content-bytes"');
    expect(await policyOf('default', 40)).toBe('"bytes";q=4194304;w=8;qu="content-bytes"');
    expect(await policyOf('none', 1)).toBeNull();
  });
});

describe('token buckets', () => {
  const rate = { perSecond: 1000 / 3, burst: 10 };

  it('are forgotten when they are full', () => {
    const clock = { ms: 0, nowMs: () => clock.ms };
    const buckets = createBuckets(clock, 100);
    for (let i = 0; i < 100_000; i++) {
      takeFromAll([buckets.get(`b-${i}`, rate)], 1);
      if (i % 10 === 0) clock.ms += 1;
    }
    expect(buckets.size()).toBeLessThanOrEqual(200);
  });

  it('keep what was taken when other buckets are forgotten', () => {
    const clock = { ms: 0, nowMs: () => clock.ms };
    const buckets = createBuckets(clock, 2);
    takeFromAll([buckets.get('empty', rate)], 10);
    buckets.get('full', rate);
    buckets.get('more', rate);
    expect(buckets.size()).toBe(2);
    expect(buckets.get('empty', rate).tokens).toBe(0);
  });

  it('hold enough after the reported wait, despite rounding of fractions', () => {
    const clock = { ms: 0.1, nowMs: () => clock.ms };
    const buckets = createBuckets(clock);
    for (const perSecond of [1 / 3, 0.7, 3, 7, 333.3, 999_999]) {
      const odd = { perSecond, burst: Math.max(1, Math.floor(2 * perSecond)) };
      const name = String(perSecond);
      expect(takeFromAll([buckets.get(name, odd)], odd.burst)).toBeUndefined();
      for (let i = 0; i < 50; i++) {
        const short = takeFromAll([buckets.get(name, odd)], 1);
        if (short) clock.ms += secondsUntil(short, 1) * 1000;
        if (short) expect(takeFromAll([buckets.get(name, odd)], 1)).toBeUndefined();
      }
    }
  });

  it('keep filling after the clock is set back', () => {
    const clock = { ms: 3_600_000, nowMs: () => clock.ms };
    const buckets = createBuckets(clock);
    takeFromAll([buckets.get('b', rate)], 10);
    clock.ms = 0;
    expect(buckets.get('b', rate).tokens).toBe(0);
    clock.ms = 3;
    expect(buckets.get('b', rate).tokens).toBeCloseTo(1);
  });

  it('apply a new rate immediately', () => {
    const clock = { ms: 0, nowMs: () => clock.ms };
    const buckets = createBuckets(clock);
    buckets.get('b', rate);
    expect(buckets.get('b', { perSecond: 1, burst: 2 }).tokens).toBe(2);
  });
});
