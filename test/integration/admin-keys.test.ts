import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Admin, startAdmin } from '../../admin/start.ts';
import { SCOPES } from '../../shared/contracts/scopes.ts';
import { createApiKey, type NewApiKey, revokeApiKey, rotateApiKey } from '../../shared/postgres/api-keys.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startProxiedPool } from '../support/proxied-pool.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench } from '../support/webhooks.ts';

const database = await createTestDatabase();
const { pool, url } = database;
const bench = createWebhookBench(pool);
const lines: string[] = [];
const logger = pino({ level: 'trace' }, { write: (line: string) => lines.push(line) });
let admin: Admin;

const KEYS = '/admin/v1/keys';
const HOUR_MS = 3_600_000;

interface Caller {
  readonly apiKeyId: string;
  readonly headers: Record<string, string>;
}

const start = (itsPool: Pool, more: { readonly keysPerDayMax?: number } = {}) =>
  startAdmin({
    ...more,
    pool: itsPool,
    keyRing: bench.keyRing,
    clock: bench.clock,
    nextId: bench.nextId,
    logger,
    allow: [],
    topicPrefix: 'sluice.',
    endpointsMax: 20,
    host: '127.0.0.1',
    port: 0,
    drainDelayMs: 0,
  });

beforeAll(async () => {
  admin = await start(pool);
  await bench.tenant('tenant-a');
  await bench.tenant('tenant-b');
});

afterAll(() => admin.stop());

async function callerWith(scopes: readonly string[], more: Partial<NewApiKey> = {}): Promise<Caller> {
  const apiKeyId = bench.nextId();
  const key = { apiKeyId, tenantId: 'tenant-a', scopes, rate: undefined, createdAtMs: Date.now(), ...more };
  const secret = await createApiKey(pool, key);
  return { apiKeyId, headers: { 'service-api-id': apiKeyId, 'service-api-secret': secret } };
}

async function call(
  { headers }: Pick<Caller, 'headers'>,
  method: string,
  path: string,
  body?: unknown,
  { port }: Admin = admin,
) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
}

const headersOf = ({ apiKeyId, apiKeySecret }: { apiKeyId: string; apiKeySecret: string }) => ({
  headers: { 'service-api-id': apiKeyId, 'service-api-secret': apiKeySecret },
});

/** Returns the code of a failure and the paths of its details. */
const failureOf = ({ body }: Awaited<ReturnType<typeof call>>) => [
  body.error.code,
  (body.error.details ?? []).map(({ path }: { path: string }) => path),
];

const countKeys = async () => (await pool.query('select 1 from api_keys')).rowCount;

describe('an API key', () => {
  it('is created, shown without its secret, rotated and revoked', async () => {
    const all = await callerWith(['*']);
    const expiresAt = new Date(Date.now() + HOUR_MS).toISOString();
    const made = await call(all, 'POST', KEYS, {
      name: 'import ż',
      scopes: ['keys:manage', 'events:read', 'events:read'],
      expiresAt,
      rate: 7,
    });
    expect(made).toEqual({
      status: 201,
      body: {
        apiKeyId: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/),
        apiKeySecret: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
        name: 'import ż',
        scopes: ['keys:manage', 'events:read'],
        rate: 7,
        state: 'valid',
        createdAt: expect.stringMatching(/Z$/),
        createdBy: all.apiKeyId,
        expiresAt,
        revokedAt: null,
        lastUsedAt: null,
        previousSecretValidUntil: null,
      },
    });
    const { apiKeySecret, ...shown } = made.body;
    const path = `${KEYS}/${shown.apiKeyId}`;
    expect(await call(all, 'GET', path)).toEqual({ status: 200, body: shown });
    expect((await call(all, 'GET', KEYS)).body.items).toContainEqual(shown);
    expect((await call(headersOf(made.body), 'GET', path)).status).toBe(200);

    const rotated = await call(all, 'POST', `${path}/rotate`, { overlapSeconds: 60 });
    const until = rotated.body.previousSecretValidUntil;
    expect(rotated).toEqual({
      status: 200,
      body: {
        apiKeyId: shown.apiKeyId,
        apiKeySecret: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
        previousSecretValidUntil: expect.stringMatching(/Z$/),
      },
    });
    expect(rotated.body.apiKeySecret).not.toBe(apiKeySecret);
    expect((await call(headersOf(rotated.body), 'GET', path)).body).toEqual({
      ...shown,
      state: 'rotating',
      previousSecretValidUntil: until,
    });
    expect((await call(headersOf(made.body), 'GET', path)).status).toBe(200);
    expect(failureOf(await call(all, 'POST', `${path}/rotate`, {}))).toEqual(['409-01', ['overlapSeconds']]);
    const last = await call(all, 'POST', `${path}/rotate`, { overlapSeconds: 0 });
    expect(last.body.previousSecretValidUntil).toBeNull();
    expect((await call(headersOf(last.body), 'GET', path)).status).toBe(200);
    for (const ended of [made.body, rotated.body]) {
      expect((await call(headersOf(ended), 'GET', path)).status).toBe(401);
    }

    expect(await call(all, 'DELETE', path)).toEqual({ status: 204, body: undefined });
    expect((await call(all, 'DELETE', path)).status).toBe(204);
    expect((await call(all, 'GET', path)).body).toMatchObject({
      state: 'revoked',
      revokedAt: expect.stringMatching(/Z$/),
    });
    expect(failureOf(await call(all, 'POST', `${path}/rotate`, {}))).toEqual(['409-01', ['apiKeyId']]);
    const secrets = [apiKeySecret, rotated.body.apiKeySecret, last.body.apiKeySecret];
    for (const secret of secrets) {
      expect(lines.join('')).not.toContain(secret);
      expect(JSON.stringify((await call(all, 'GET', KEYS)).body)).not.toContain(secret);
    }
  });

  it('keeps its previous secret for 1 day by default, and never past its expiry', async () => {
    const all = await callerWith(['*']);
    const until = async (expiresAtMs: number | null) => {
      const { apiKeyId } = await callerWith(['events:read'], { expiresAtMs });
      const { body } = await call(all, 'POST', `${KEYS}/${apiKeyId}/rotate`, {});
      return Date.parse(body.previousSecretValidUntil);
    };
    const nowMs = Date.now();
    expect(Math.abs((await until(null)) - nowMs - 24 * HOUR_MS)).toBeLessThan(60_000);
    expect(await until(nowMs + HOUR_MS)).toBe(nowMs + HOUR_MS);
  });

  it('refuses one of two concurrent rotations', async () => {
    const all = await callerWith(['*']);
    const { apiKeyId } = await callerWith(['events:read']);
    const both = await Promise.all([1, 2].map(() => call(all, 'POST', `${KEYS}/${apiKeyId}/rotate`, {})));
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
  });

  it('of another tenant is answered like an unknown one', async () => {
    const all = await callerWith(['*']);
    const { apiKeyId } = await callerWith(['events:read'], { tenantId: 'tenant-b' });
    for (const id of [apiKeyId, 'unknown', '%00', 'a%20b', '%C5%BC']) {
      const path = `${KEYS}/${id}`;
      expect(failureOf(await call(all, 'GET', path))).toEqual(['404-01', []]);
      expect(failureOf(await call(all, 'DELETE', path))).toEqual(['404-01', []]);
      expect(failureOf(await call(all, 'POST', `${path}/rotate`, {}))).toEqual(['404-01', []]);
    }
    for (const path of [`${KEYS}/%zz`, `${KEYS}/%ff`]) {
      expect((await call(all, 'GET', path)).body.error.code).toBe('400-01');
      expect((await call(all, 'POST', `${path}/rotate`, {})).body.error.code).toBe('400-01');
    }
    expect(JSON.stringify((await call(all, 'GET', KEYS)).body)).not.toContain(apiKeyId);
    const { rows } = await pool.query('select revoked_at from api_keys where api_key_id = $1', [apiKeyId]);
    expect(rows).toEqual([{ revoked_at: null }]);
  });

  it('is neither created nor rotated by a body that breaks rules, but refused with 422-01', async () => {
    const all = await callerWith(['*']);
    const created = await call(all, 'POST', KEYS, { scopes: ['everything'], rate: 0 });
    expect(failureOf(created)).toEqual(['422-01', ['scopes[0]', 'rate']]);
    const expired = await call(all, 'POST', KEYS, { scopes: ['*'], expiresAt: '2020-01-01T00:00:00Z' });
    expect(failureOf(expired)).toEqual(['422-01', ['expiresAt']]);
    const misspelt = await call(all, 'POST', KEYS, {
      scopes: ['events:read'],
      expiresAfter: '2030-01-31',
    });
    expect(failureOf(misspelt)).toEqual(['422-01', ['expiresAfter']]);
    const rotated = await call(all, 'POST', `${KEYS}/${all.apiKeyId}/rotate`, { overlapSeconds: -1 });
    expect(failureOf(rotated)).toEqual(['422-01', ['overlapSeconds']]);
  });
});

describe('an API key that manages keys', () => {
  it('needs the scope keys:manage for every operation', async () => {
    const without = await callerWith(SCOPES.filter((scope) => scope !== 'keys:manage'));
    const path = `${KEYS}/${without.apiKeyId}`;
    const before = await countKeys();
    for (const [method, at, body] of [
      ['POST', KEYS, { scopes: ['events:read'] }],
      ['GET', KEYS, undefined],
      ['GET', path, undefined],
      ['POST', `${path}/rotate`, {}],
      ['DELETE', path, undefined],
    ] as const) {
      expect(failureOf(await call(without, method, at, body))).toEqual(['403-01', ['service-api-id']]);
    }
    expect(await countKeys()).toBe(before);
  });

  it('creates and rotates keys within its own scopes', async () => {
    const manager = await callerWith(['keys:manage', 'events:read']);
    const made = await call(manager, 'POST', KEYS, { scopes: ['events:read'] });
    expect(made.status).toBe(201);
    expect((await call(manager, 'POST', `${KEYS}/${made.body.apiKeyId}/rotate`, {})).status).toBe(200);
    expect((await call(manager, 'POST', `${KEYS}/${manager.apiKeyId}/rotate`, {})).status).toBe(200);
  });

  it.each([
    ['a scope that it lacks', ['events:read', 'credentials:read'], ['scopes']],
    ['2 scopes that it lacks', ['state:read', 'credentials:read'], ['scopes', 'scopes']],
    ['every scope', ['*'], ['scopes']],
  ])('cannot create a key with %s', async (_what, scopes, paths) => {
    const manager = await callerWith(['keys:manage', 'events:read']);
    const before = await countKeys();
    const refused = await call(manager, 'POST', KEYS, { scopes });
    expect([refused.status, ...failureOf(refused)]).toEqual([403, '403-01', paths]);
    expect(refused.body.error.details.at(-1).message).toContain(scopes.at(-1));
    expect(await countKeys()).toBe(before);
  });

  it('cannot grant every scope although it has each of them', async () => {
    const manager = await callerWith([...SCOPES]);
    expect(failureOf(await call(manager, 'POST', KEYS, { scopes: ['*'] }))).toEqual(['403-01', ['scopes']]);
    expect((await call(manager, 'POST', KEYS, { scopes: SCOPES })).status).toBe(201);
  });

  it('cannot rotate a key that can do more', async () => {
    const manager = await callerWith(['keys:manage', 'events:read']);
    for (const scopes of [['*'], ['events:read', 'credentials:read'], ['of-a-later-release']]) {
      const other = await callerWith(scopes);
      const refused = await call(manager, 'POST', `${KEYS}/${other.apiKeyId}/rotate`, { overlapSeconds: 0 });
      expect(failureOf(refused)).toEqual(['403-01', ['scopes']]);
      const { rows } = await pool.query('select previous_valid_until from api_keys where api_key_id = $1', [
        other.apiKeyId,
      ]);
      expect(rows).toEqual([{ previous_valid_until: null }]);
    }
  });

  it('cannot create or rotate a key that expires later', async () => {
    const expiresAtMs = Date.now() + HOUR_MS;
    const manager = await callerWith(['*'], { expiresAtMs });
    const at = (ms: number) => new Date(ms).toISOString();
    const make = (expiresAt?: string) => call(manager, 'POST', KEYS, { scopes: ['events:read'], expiresAt });
    expect(failureOf(await make())).toEqual(['403-01', ['expiresAt']]);
    expect(failureOf(await make(at(expiresAtMs + 1)))).toEqual(['403-01', ['expiresAt']]);
    expect((await make(at(expiresAtMs))).status).toBe(201);
    const lasting = await callerWith(['events:read']);
    const refused = await call(manager, 'POST', `${KEYS}/${lasting.apiKeyId}/rotate`, {});
    expect(failureOf(refused)).toEqual(['403-01', ['expiresAt']]);
    expect((await call(manager, 'POST', `${KEYS}/${manager.apiKeyId}/rotate`, {})).status).toBe(200);
  });

  it('with its own rate creates no keys and rotates only itself', async () => {
    const manager = await callerWith(['*'], { rate: 10 });
    const before = await countKeys();
    for (const rate of [undefined, 11, 10, 1]) {
      const refused = await call(manager, 'POST', KEYS, { scopes: ['events:read'], rate });
      expect(failureOf(refused)).toEqual(['403-01', ['rate']]);
    }
    expect(await countKeys()).toBe(before);
    const other = await callerWith(['events:read'], { rate: 1 });
    const refused = await call(manager, 'POST', `${KEYS}/${other.apiKeyId}/rotate`, {});
    expect(failureOf(refused)).toEqual(['403-01', ['rate']]);
    expect((await call(manager, 'POST', `${KEYS}/${manager.apiKeyId}/rotate`, {})).status).toBe(200);
  });

  it('can only read with its previous secret', async () => {
    const manager = await callerWith(['*']);
    const other = await callerWith(['events:read']);
    const own = `${KEYS}/${manager.apiKeyId}`;
    const rotated = await call(manager, 'POST', `${own}/rotate`, { overlapSeconds: 60 });
    const before = await countKeys();
    for (const [method, path, body] of [
      ['POST', KEYS, { scopes: ['events:read'] }],
      ['POST', `${own}/rotate`, { overlapSeconds: 0 }],
      ['POST', `${KEYS}/${other.apiKeyId}/rotate`, {}],
      ['DELETE', own, undefined],
      ['DELETE', `${KEYS}/${other.apiKeyId}`, undefined],
    ] as const) {
      expect(failureOf(await call(manager, method, path, body))).toEqual(['403-01', ['service-api-secret']]);
    }
    expect(await countKeys()).toBe(before);
    expect((await call(manager, 'GET', `${KEYS}/${other.apiKeyId}`)).body.state).toBe('valid');
    const successor = headersOf(rotated.body);
    expect((await call(successor, 'POST', `${own}/rotate`, { overlapSeconds: 0 })).status).toBe(200);
  });

  it.each([
    ['it is revoked', (apiKeyId: string, nowMs: number) => revokeApiKey(pool, apiKeyId, nowMs)],
    [
      'its secret has ended',
      (apiKeyId: string, nowMs: number) => rotateApiKey(pool, { apiKeyId, nowMs, overlapMs: 0 }),
    ],
  ])('is refused with 401-01 as soon as %s', async (_what, end) => {
    const manager = await callerWith(['*']);
    const other = await callerWith(['events:read']);
    expect((await call(manager, 'GET', KEYS)).status).toBe(200);
    const before = await countKeys();
    await end(manager.apiKeyId, Date.now());
    for (const [method, path, body] of [
      ['POST', KEYS, { scopes: ['*'] }],
      ['POST', `${KEYS}/${manager.apiKeyId}/rotate`, { overlapSeconds: 0 }],
      ['POST', `${KEYS}/${other.apiKeyId}/rotate`, {}],
      ['DELETE', `${KEYS}/${other.apiKeyId}`, undefined],
      ['GET', KEYS, undefined],
      ['POST', '/admin/v1/webhooks', { url: 'https://example.com/' }],
    ] as const) {
      expect(failureOf(await call(manager, method, path, body))).toEqual(['401-01', []]);
    }
    expect(await countKeys()).toBe(before);
    const { rows } = await pool.query('select revoked_at from api_keys where api_key_id = $1', [
      other.apiKeyId,
    ]);
    expect(rows).toEqual([{ revoked_at: null }]);
  });
});

/** Returns the ids of all keys, read in pages. */
async function listAll(caller: Caller, limit?: number): Promise<string[]> {
  const ids: string[] = [];
  for (let after: string | undefined, first = true; first || after !== undefined; first = false) {
    const query = new URLSearchParams({
      ...(limit === undefined ? {} : { limit: String(limit) }),
      ...(after === undefined ? {} : { after }),
    });
    const { status, body } = await call(caller, 'GET', `${KEYS}?${query}`);
    expect(status).toBe(200);
    expect(body.items.length).toBeLessThanOrEqual(limit ?? 100);
    ids.push(...body.items.map(({ apiKeyId }: Caller) => apiKeyId));
    after = body.next;
  }
  return ids;
}

describe('the list of API keys', () => {
  it('has pages with each key once, oldest first, also for keys of the same millisecond', async () => {
    await bench.tenant('tenant-pages');
    const manager = await callerWith(['*'], { tenantId: 'tenant-pages', createdAtMs: 0 });
    await pool.query(
      `insert into api_keys (api_key_id, tenant_id, secret_sha256, scopes, created_at)
       select 'page-' || lpad(n::text, 3, '0'), 'tenant-pages', decode(repeat('00', 32), 'hex'), '{state:read}',
              '2026-01-01T00:00:00Z'::timestamptz + (n / 50) * interval '1 microsecond'
         from generate_series(0, 249) as n`,
    );
    const ids = [
      manager.apiKeyId,
      ...Array.from({ length: 250 }, (_, n) => `page-${String(n).padStart(3, '0')}`),
    ];
    expect(await listAll(manager)).toEqual(ids);
    expect(await listAll(manager, 7)).toEqual(ids);
    expect(await listAll(manager, 251)).toEqual(ids);
    const { body } = await call(manager, 'GET', `${KEYS}?limit=251`);
    expect(body).not.toHaveProperty('next');
  });

  it.each([
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['limit=', 'limit'],
    ['after=unknown', 'after'],
    ['after=', 'after'],
    ['after=%00', 'after'],
    ['before=x', 'query'],
  ])('refuses the query ?%s with 400-01', async (query, path) => {
    const answer = await call(await callerWith(['*']), 'GET', `${KEYS}?${query}`);
    expect(failureOf(answer)).toEqual(['400-01', [path]]);
  });

  it("refuses a cursor that is another tenant's key", async () => {
    const { apiKeyId } = await callerWith(['events:read'], { tenantId: 'tenant-b' });
    const answer = await call(await callerWith(['*']), 'GET', `${KEYS}?after=${apiKeyId}`);
    expect(failureOf(answer)).toEqual(['400-01', ['after']]);
  });
});

describe('API keys created per day', () => {
  it('are bounded for concurrent requests and include revoked ones; the command can create more', async () => {
    await bench.tenant('tenant-day');
    const inTenant = { tenantId: 'tenant-day' };
    const itsAdmin = await start(pool, { keysPerDayMax: 3 });
    try {
      const manager = await callerWith(['*'], inTenant);
      for (let i = 0; i < 5; i++) await callerWith(['events:read'], inTenant);
      const make = () => call(manager, 'POST', KEYS, { scopes: ['events:read'] }, itsAdmin);
      const made = await Promise.all([make(), make(), make(), make()]);
      expect(made.map(({ status }) => status).sort()).toEqual([201, 201, 201, 422]);
      const [{ body }] = made.filter(({ status }) => status === 201) as [(typeof made)[0]];
      await call(manager, 'DELETE', `${KEYS}/${body.apiKeyId}`);
      const refused = await make();
      expect(failureOf(refused)).toEqual(['422-01', ['body']]);
      expect(refused.body.error.details[0].message).toContain('at most 3 keys in 24 hours');
      const other = await callerWith(['*'], { tenantId: 'tenant-b' });
      const theirs = await call(other, 'POST', KEYS, { scopes: ['events:read'] }, itsAdmin);
      expect(theirs.status).toBe(201);
      await pool.query('update api_keys set created_at = $2 where api_key_id = $1', [
        body.apiKeyId,
        new Date(Date.now() - 24 * 3_600_000),
      ]);
      expect((await make()).status).toBe(201);
      expect((await make()).status).toBe(422);
    } finally {
      await itsAdmin.stop();
    }
  });
});

describe('an API key revoked with what it created', () => {
  const revoke = (caller: Caller, apiKeyId: string) =>
    call(caller, 'DELETE', `${KEYS}/${apiKeyId}?disable=created`);
  const made = async (caller: Pick<Caller, 'headers'>, scopes = ['*']) => {
    const { body } = await call(caller, 'POST', KEYS, { scopes });
    return { apiKeyId: body.apiKeyId as string, ...headersOf(body) };
  };

  it('revokes the keys that it created directly and indirectly, and no others', async () => {
    const [operator, leaked] = [await callerWith(['*']), await callerWith(['*'])];
    const child = await made(leaked);
    const grandchild = await made(child, ['keys:manage']);
    const [rotated, revokedBefore] = [await made(leaked), await made(leaked)];
    await call(rotated, 'POST', `${KEYS}/${rotated.apiKeyId}/rotate`, {});
    await call(operator, 'DELETE', `${KEYS}/${revokedBefore.apiKeyId}`);
    const other = await made(operator, ['events:read']);
    const answer = await revoke(operator, leaked.apiKeyId);
    const ended = [leaked, child, grandchild, rotated].map(({ apiKeyId }) => apiKeyId).sort();
    expect(answer).toEqual({ status: 200, body: { revokedKeys: ended, disabledEndpoints: [] } });
    for (const caller of [leaked, child, grandchild, rotated]) {
      expect((await call(caller, 'GET', KEYS)).status).toBe(401);
    }
    expect((await call(operator, 'GET', `${KEYS}/${other.apiKeyId}`)).body.state).toBe('valid');
    expect(await revoke(operator, leaked.apiKeyId)).toEqual({
      status: 200,
      body: { revokedKeys: [], disabledEndpoints: [] },
    });
  });

  it('disables the webhook endpoints that it and its keys created', async () => {
    const [operator, leaked] = [await callerWith(['*']), await callerWith(['*'])];
    const child = await made(leaked);
    const endpoint = async (caller: Pick<Caller, 'headers'>) => {
      const { body } = await call(caller, 'POST', '/admin/v1/webhooks', { url: 'https://example.com/' });
      return body.endpointId as string;
    };
    const [ofLeaked, ofChild, ofOperator] = [
      await endpoint(leaked),
      await endpoint(child),
      await endpoint(operator),
    ];
    const answer = await revoke(operator, leaked.apiKeyId);
    expect(answer.body.disabledEndpoints).toEqual([ofLeaked, ofChild].sort());
    const shown = async (id: string) => (await call(operator, 'GET', `/admin/v1/webhooks/${id}`)).body;
    for (const [id, maker] of [
      [ofLeaked, leaked],
      [ofChild, child],
    ] as const) {
      expect(await shown(id)).toMatchObject({
        state: 'disabled',
        disabledReason: 'revoked',
        createdBy: maker.apiKeyId,
      });
    }
    expect(await shown(ofOperator)).toMatchObject({ state: 'enabled', createdBy: operator.apiKeyId });
  });

  it('revokes what it created also after it was revoked alone', async () => {
    const [operator, leaked] = [await callerWith(['*']), await callerWith(['*'])];
    const child = await made(leaked);
    expect((await call(operator, 'DELETE', `${KEYS}/${leaked.apiKeyId}`)).status).toBe(204);
    expect((await call(child, 'GET', KEYS)).status).toBe(200);
    expect((await revoke(operator, leaked.apiKeyId)).body.revokedKeys).toEqual([child.apiKeyId]);
    expect((await call(child, 'GET', KEYS)).status).toBe(401);
  });

  it('creates no other key, whatever requests are in progress', async () => {
    const [operator, leaked] = [await callerWith(['*']), await callerWith(['*'])];
    const holder = await pool.connect();
    try {
      await holder.query('begin');
      await holder.query(`select 1 from tenants where tenant_id = 'tenant-a' for no key update`);
      const revoking = revoke(operator, leaked.apiKeyId);
      await untilLocksAreWaitedFor(1);
      const making = Promise.all([
        ...[1, 2, 3].map(() => call(leaked, 'POST', KEYS, { scopes: ['*'] })),
        call(leaked, 'POST', '/admin/v1/webhooks', { url: 'https://example.com/' }),
      ]);
      await untilLocksAreWaitedFor(2);
      await holder.query('commit');
      const { revokedKeys, disabledEndpoints } = (await revoking).body;
      for (const { status, body } of await making) {
        if (status !== 201) expect(status).toBe(401);
        else expect([...revokedKeys, ...disabledEndpoints]).toContain(body.apiKeyId ?? body.endpointId);
      }
      const { rows } = await pool.query(
        'select 1 from api_keys where created_by = $1 and revoked_at is null',
        [leaked.apiKeyId],
      );
      expect(rows).toEqual([]);
    } finally {
      holder.release();
    }
  });

  it.each([
    ['disable=all', 'disable'],
    ['disable=', 'disable'],
    ['disable=created&disable=created', 'disable'],
    ['disabled=created', 'query'],
  ])('is not revoked with the invalid query ?%s', async (query, path) => {
    const [operator, other] = [await callerWith(['*']), await callerWith(['*'])];
    const answer = await call(operator, 'DELETE', `${KEYS}/${other.apiKeyId}?${query}`);
    expect(failureOf(answer)).toEqual(['400-01', [path]]);
    expect((await call(other, 'GET', KEYS)).status).toBe(200);
  });

  it('is not found if it belongs to another tenant', async () => {
    const { apiKeyId } = await callerWith(['*'], { tenantId: 'tenant-b' });
    expect(failureOf(await revoke(await callerWith(['*']), apiKeyId))).toEqual(['404-01', []]);
    const { rows } = await pool.query('select revoked_at from api_keys where api_key_id = $1', [apiKeyId]);
    expect(rows).toEqual([{ revoked_at: null }]);
  });

  async function untilLocksAreWaitedFor(count: number): Promise<void> {
    await waitFor(async () => (await database.countLockWaits()) >= count, {
      timeoutMs: 10_000,
      what: `${count} transactions that wait`,
    });
  }
});

describe('a tenant with many API keys', () => {
  it('creates up to 1000 valid keys, also with concurrent requests', async () => {
    await bench.tenant('tenant-c');
    const inTenant = { tenantId: 'tenant-c' };
    const manager = await callerWith(['*'], inTenant);
    await callerWith(['*'], { ...inTenant, expiresAtMs: Date.now() - 1 });
    await revokeApiKey(pool, (await callerWith(['*'], inTenant)).apiKeyId, Date.now());
    await pool.query(
      `insert into api_keys (api_key_id, tenant_id, secret_sha256, scopes, created_at)
       select 'many-' || n, 'tenant-c', decode(repeat('00', 32), 'hex'), '{state:read}', now()
         from generate_series(1, 998) as n`,
    );
    const make = () => call(manager, 'POST', KEYS, { scopes: ['events:read'] });
    const concurrent = await Promise.all([make(), make(), make(), make()]);
    expect(concurrent.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
    const refused = await make();
    expect(failureOf(refused)).toEqual(['409-01', ['body']]);
    expect(refused.body.error.details[0].message).toContain('revoke some');
    expect((await call(manager, 'DELETE', `${KEYS}/many-1`)).status).toBe(204);
    expect((await make()).status).toBe(201);
    expect((await make()).status).toBe(409);
    expect((await call(await callerWith(['*']), 'POST', KEYS, { scopes: ['events:read'] })).status).toBe(201);
    expect(await listAll(manager, 400)).toHaveLength(1003);
  });
});

it('requests of a tenant that wait for a lock do not delay other tenants', async () => {
  const itsPool = createPool({ connectionString: url, max: 6, applicationName: 'admin-keys-test', logger });
  const itsAdmin = await start(itsPool);
  const holder = await pool.connect();
  try {
    const many = await callerWith(['*']);
    const other = await callerWith(['*'], { tenantId: 'tenant-b' });
    await holder.query('begin');
    await holder.query(`select 1 from tenants where tenant_id = 'tenant-a' for no key update`);
    const waiting = Promise.all(
      Array.from({ length: 12 }, () => call(many, 'POST', KEYS, { scopes: ['events:read'] }, itsAdmin)),
    );
    await waitFor(async () => (await database.countLockWaits()) >= 2, {
      timeoutMs: 10_000,
      what: 'requests that wait',
    });
    expect((await call(other, 'GET', KEYS, undefined, itsAdmin)).status).toBe(200);
    await holder.query('commit');
    for (const { status } of await waiting) expect([201, 503]).toContain(status);
  } finally {
    holder.release();
    await itsAdmin.stop();
    await itsPool.end();
  }
});

it('a known API key is answered 503-01 while the database is unavailable', async () => {
  const { pool: itsPool, proxy, close } = await startProxiedPool(url, { max: 3 });
  const itsAdmin = await start(itsPool);
  try {
    const manager = await callerWith(['*']);
    const list = () => call(manager, 'GET', KEYS, undefined, itsAdmin);
    expect((await list()).status).toBe(200);
    await proxy.close();
    expect(failureOf(await list())).toEqual(['503-01', []]);
  } finally {
    await itsAdmin.stop();
    await close();
  }
});
