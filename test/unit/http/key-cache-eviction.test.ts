import { createHash } from 'node:crypto';
import { Hono } from 'hono';
import { pino } from 'pino';
import { afterEach, expect, it } from 'vitest';
import { requireApiKey } from '../../../shared/http/api-key-auth/api-key-auth.ts';
import { KeyCache } from '../../../shared/http/api-key-auth/key-cache.ts';
import { guarded } from '../../../shared/http/checks.ts';
import type { HttpEnv } from '../../../shared/http/env.ts';
import type { ApiKey } from '../../../shared/postgres/api-key-lookup.ts';
import { apiKey, NOW_MS, SECRET } from '../../support/gateway-app.ts';

/** Callers of several tenants share one small key cache, whose store goes down. */

const KEYS_MAX = 100;
let keys: KeyCache | undefined;
afterEach(() => keys?.close());

function setUp() {
  const store = { rows: new Map<string, ApiKey>(), down: false };
  const clock = { nowMs: () => NOW_MS };
  keys = new KeyCache({
    findKeys: async (ids) => {
      if (store.down) throw new Error('connection refused');
      return ids.flatMap((id) => store.rows.get(id) ?? []);
    },
    findChanges: async () => [],
    logger: pino({ level: 'silent' }),
    refreshMs: 60_000,
    keysMax: KEYS_MAX,
  });
  const app = new Hono<HttpEnv>().get(
    '/',
    guarded([requireApiKey({ keys, clock })], (c) => c.body(null, 204)),
  );
  const call = async (id: string, secret = SECRET) => {
    const headers = { 'service-api-id': id, 'service-api-secret': secret };
    return (await app.request('/', { headers })).status;
  };
  const add = (id: string, changes: Partial<ApiKey>) => store.rows.set(id, apiKey(id, changes));
  return { store, call, add };
}

it.each<[string, Partial<ApiKey>, string, number]>([
  ['a wrong secret of revoked keys', { revoked: true }, 'wrong', 401],
  ['a wrong secret of expired keys', { expiresAtMs: NOW_MS - 1 }, 'wrong', 401],
  ['a wrong secret of valid keys', {}, 'wrong', 401],
  ['the secret of revoked keys', { revoked: true }, SECRET, 401],
  ['the secret of expired keys', { expiresAtMs: NOW_MS - 1 }, SECRET, 401],
  ['the secret of keys of a disabled tenant', { tenantDisabled: true }, SECRET, 403],
  ['the secret of valid keys', {}, SECRET, 204],
])('a tenant that shows %s evicts no other tenant', async (_what, changes, secret, status) => {
  const { store, call, add } = setUp();
  for (const id of ['other-1', 'other-2']) {
    add(id, { tenantId: 'other' });
    expect(await call(id)).toBe(204);
  }
  const many = Array.from({ length: 3 * KEYS_MAX }, (_, i) => `many-${i}`);
  for (const id of many) add(id, { tenantId: 'many', ...changes });
  const statuses = await Promise.all(many.map((id) => call(id, secret)));
  expect(statuses).toEqual(many.map(() => status));
  store.down = true;
  expect([await call('other-1'), await call('other-2')]).toEqual([204, 204]);
  expect(await call('never-seen')).toBe(503);
});

it('a wrong secret does not make a key the most recently used one', async () => {
  const { store, call, add } = setUp();
  add('first', { tenantId: 'own' });
  add('second', { tenantId: 'own', secretSha256: createHash('sha256').update('its own').digest() });
  await call('first');
  await call('second', 'its own');
  await call('first', 'wrong');
  for (let i = 0; i < KEYS_MAX - 1; i++) {
    add(`new-${i}`, { tenantId: 'own' });
    await call(`new-${i}`);
  }
  store.down = true;
  expect([await call('first'), await call('second', 'its own')]).toEqual([503, 204]);
});
