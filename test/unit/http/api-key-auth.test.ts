import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ApiKey } from '../../../shared/postgres/api-key-lookup.ts';
import { apiKey, createGatewayApp, NOW_MS, SECRET } from '../../support/gateway-app.ts';

const compared = vi.hoisted(() => [] as [number, number][]);
vi.mock('node:crypto', async (original) => {
  const crypto = await original<typeof import('node:crypto')>();
  const timingSafeEqual = (a: Buffer, b: Buffer) => {
    compared.push([a.length, b.length]);
    return crypto.timingSafeEqual(a, b);
  };
  return { ...crypto, timingSafeEqual };
});

const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const message = { messageId: 'm-1', augmentationType: ['FREEHAND'] };
const sha256 = (text: string) => createHash('sha256').update(text).digest();
const rotated = (validUntilMs: number) => ({
  version: 'v2',
  secretSha256: sha256('new'),
  previousSecret: { sha256: sha256(SECRET), validUntilMs },
});

/** Creates a gateway whose store and time the test changes. */
function setUp(first: Partial<ApiKey> = {}) {
  const store = { key: apiKey('key-1', first), down: false, lookUps: 0 };
  const clock = { nowMs: () => clock.ms, ms: NOW_MS };
  const { post, keys } = createGatewayApp({
    clock,
    findKeys: async (ids) => {
      store.lookUps++;
      if (store.down) throw new Error('connection refused');
      return ids.includes('key-1') ? [store.key] : [];
    },
  });
  const status = async (secret: string, id = 'key-1') =>
    (await post(MESSAGE, message, { 'service-api-id': id, 'service-api-secret': secret })).status;
  return { store, clock, keys, status };
}

describe('a rotated API key', () => {
  it('accepts both secrets until the previous one ends, then the new one only', async () => {
    const { status, clock } = setUp(rotated(NOW_MS + 1000));
    expect([await status(SECRET), await status('new'), await status('other')]).toEqual([200, 200, 401]);
    clock.ms = NOW_MS + 999;
    expect(await status(SECRET)).toBe(200);
    clock.ms = NOW_MS + 1000;
    expect([await status(SECRET), await status('new')]).toEqual([401, 200]);
  });

  it('accepts the new secret immediately if the key was cached before', async () => {
    const { status, store } = setUp();
    expect([await status(SECRET), await status('new')]).toEqual([200, 401]);
    store.key = apiKey('key-1', rotated(NOW_MS + 1000));
    expect([await status('new'), await status(SECRET)]).toEqual([200, 200]);
  });

  it('answers 503 to a new secret and accepts the cached one while the store is down', async () => {
    const { status, store } = setUp();
    expect(await status(SECRET)).toBe(200);
    store.down = true;
    expect([await status('new'), await status(SECRET)]).toEqual([503, 200]);
    store.down = false;
    store.key = apiKey('key-1', rotated(NOW_MS));
    expect([await status('new'), await status(SECRET)]).toEqual([200, 401]);
  });
});

it('an API key with a cached secret needs no look-up', async () => {
  const { status, store } = setUp();
  await status(SECRET);
  await status(SECRET);
  expect(store.lookUps).toBe(1);
});

it('only a right secret counts as a use of an API key', async () => {
  const { keys, status, store } = setUp();
  const used = vi.spyOn(keys, 'used');
  await status('wrong');
  store.key = apiKey('key-1', { version: 'v2', revoked: true });
  await status('wrong');
  await status(SECRET);
  expect(used).not.toHaveBeenCalled();
  store.key = apiKey('key-1', { version: 'v3' });
  await status('wrong');
  await status(SECRET);
  expect(used.mock.calls).toEqual([['key-1']]);
});

describe('secrets are compared as digests of equal length, equally often for all outcomes', () => {
  beforeEach(() => void compared.splice(0));
  afterEach(() => void compared.splice(0));

  it.each([
    ['an unknown id', 'unknown', SECRET],
    ['a wrong secret', 'key-1', 'wrong'],
    ['a wrong secret of another length', 'key-1', 'w'.repeat(1000)],
  ])('%s', async (_what, id, secret) => {
    const { status } = setUp();
    await status(SECRET);
    compared.splice(0);
    expect(await status(secret, id)).toBe(401);
    // The cached key is compared first, then the stored one; each with both secrets that a key may
    // have.
    expect(compared).toEqual(Array.from({ length: 4 }, () => [32, 32]));
  });

  it('the right secret', async () => {
    const { status } = setUp(rotated(NOW_MS + 1000));
    await status('new');
    compared.splice(0);
    expect([await status('new'), await status(SECRET)]).toEqual([200, 200]);
    expect(compared).toEqual(Array.from({ length: 4 }, () => [32, 32]));
  });
});
