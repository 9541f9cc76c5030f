import { createHash, randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { writePortalToken } from '../../../admin/tokens/portal-token.ts';
import { createKeyRing } from '../../../shared/keyring/keyring.ts';
import type { ApiKey } from '../../../shared/postgres/api-key-lookup.ts';
import { createAdminTestApp } from '../../support/admin-app.ts';
import { KEY_RING, NOW_MS, SECRET } from '../../support/gateway-app.ts';

const HOUR_MS = 3_600_000;
const WEBHOOKS = '/admin/v1/webhooks';
const ORIGIN = 'https://portal.example.com';
const key = { 'service-api-id': 'key-1', 'service-api-secret': SECRET };
const sha256 = (text: string) => createHash('sha256').update(text).digest();

/** Every request that passes the checks is answered 503: there is no database. */
const ALLOWED = 503;

/** Resolves with a token that `key-1` creates, as it is in this app. */
async function createToken(app = createAdminTestApp(['webhooks:manage'])) {
  const answer = await app.request('/admin/v1/tokens', { method: 'POST', headers: key });
  expect(answer.status).toBe(201);
  return (await answer.json()) as { token: string; expiresAt: string };
}

async function statusOf(token: string, path = WEBHOOKS, app = createAdminTestApp(['*']), method = 'GET') {
  const answer = await app.request(path, { method, headers: { authorization: `Bearer ${token}` } });
  return answer.status;
}

describe('a portal token', () => {
  it('is valid for an hour, or as long as its key', async () => {
    expect((await createToken()).expiresAt).toBe(new Date(NOW_MS + HOUR_MS).toISOString());
    const short = createAdminTestApp(['*'], { expiresAtMs: NOW_MS + 1000 });
    expect((await createToken(short)).expiresAt).toBe(new Date(NOW_MS + 1000).toISOString());
    const { token } = await createToken();
    const at = (ms: number) => createAdminTestApp(['*'], {}, { clock: { nowMs: () => NOW_MS + ms } });
    expect(await statusOf(token, WEBHOOKS, at(HOUR_MS - 1))).toBe(ALLOWED);
    expect(await statusOf(token, WEBHOOKS, at(HOUR_MS))).toBe(401);
  });

  it.each([
    [WEBHOOKS, ALLOWED],
    [`${WEBHOOKS}/one`, ALLOWED],
    ['/admin/v1/event-types', 200],
    ['/admin/v1/keys', 403],
    ['/admin/v1/events/one', 403],
    ['/admin/v1/agents', 403],
    ['/admin/v1/export/agents', 403],
    ['/internal/v1/credential-reads', 403],
    ['/admin/v1/webhooks-of-others', 404],
    ['/admin/v1/nothing', 404],
  ])('of a key with every scope calls %s with %i', async (path, status) => {
    const { token } = await createToken(createAdminTestApp(['*']));
    expect(await statusOf(token, path)).toBe(status);
  });

  it('creates no token, and its refusal names the paths that it may call', async () => {
    const { token } = await createToken();
    const answer = await createAdminTestApp(['*']).request('/admin/v1/tokens', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
    });
    expect(answer.status).toBe(403);
    const { error } = (await answer.json()) as { error: { details: { path: string; message: string }[] } };
    expect(error.details).toEqual([{ path: 'authorization', message: expect.stringContaining(WEBHOOKS) }]);
  });

  const REVOKED: readonly [string, Partial<ApiKey>, number][] = [
    ['whose key is revoked', { revoked: true }, 401],
    ['whose key has expired', { expiresAtMs: NOW_MS }, 401],
    ['whose key has lost the secret', { secretSha256: sha256('new') }, 401],
    ['whose key belongs to another tenant', { tenantId: 'tenant-2' }, 401],
    ['whose tenant is disabled', { tenantDisabled: true }, 403],
    [
      'whose secret was rotated and is still valid',
      {
        secretSha256: sha256('new'),
        previousSecret: { sha256: sha256(SECRET), validUntilMs: NOW_MS + 1000 },
      },
      ALLOWED,
    ],
  ];
  it.each(REVOKED)('%s', async (_, changes, status) => {
    const { token } = await createToken();
    expect(await statusOf(token, WEBHOOKS, createAdminTestApp(['*'], changes))).toBe(status);
  });

  it('that was changed in any character is refused', async () => {
    const { token } = await createToken();
    for (let i = 0; i < token.length; i++) {
      const other = token[i] === 'A' ? 'B' : 'A';
      expect([i, await statusOf(token.slice(0, i) + other + token.slice(i + 1))]).toEqual([i, 401]);
    }
    for (const text of [
      `${token}A`,
      token.slice(0, -1),
      `${token}.`,
      'portal_test.',
      'x',
      'a'.repeat(9000),
    ]) {
      expect([text, await statusOf(text)]).toEqual([text, 401]);
    }
  });

  it('of another key ring is refused, and one of an older key of the ring is accepted', async () => {
    const content = {
      tenantId: 'tenant-1',
      apiKeyId: 'key-1',
      secretSha256: sha256(SECRET),
      scopes: ['webhooks:manage'],
      expiresAtMs: NOW_MS + HOUR_MS,
    };
    const other = `test:${randomBytes(32).toString('base64')}`;
    expect(await statusOf(writePortalToken(createKeyRing(other), content))).toBe(401);
    const rotated = createKeyRing(`new:${randomBytes(32).toString('base64')},${KEY_RING}`);
    const { token } = await createToken();
    expect(await statusOf(token, WEBHOOKS, createAdminTestApp(['*'], {}, { keyRing: rotated }))).toBe(
      ALLOWED,
    );
    // Credentials are encrypted with the same ring, and are no tokens.
    const { keyId, ciphertext } = createKeyRing(KEY_RING).encrypt(Buffer.from(JSON.stringify(content)), [
      'tenant-1',
      'C1',
    ]);
    expect(await statusOf(`portal_${keyId}.${ciphertext.toString('base64url')}`)).toBe(401);
  });

  it('counts toward the rates of its tenant and its key', async () => {
    const limits = { tenantRate: 1, keyRate: undefined, byteRate: 'none', dailyQuota: undefined } as const;
    const app = createAdminTestApp(['*'], { limits });
    const { token } = await createToken(app);
    expect(await statusOf(token, WEBHOOKS, app)).toBe(ALLOWED);
    expect(await statusOf(token, WEBHOOKS, app)).toBe(429);
    expect((await app.request(WEBHOOKS, { headers: key })).status).toBe(429);
  });

  it('is in no log line, wherever the caller puts it', async () => {
    const lines: string[] = [];
    const logger = pino({ level: 'trace' }, { write: (line: string) => lines.push(line) });
    const app = createAdminTestApp(['*'], {}, { logger });
    const { token } = await createToken(app);
    const headers = { authorization: `Bearer ${token}`, 'x-request-id': token };
    for (const path of [WEBHOOKS, `${WEBHOOKS}/${token}`, `${WEBHOOKS}?token=${token}`, `/${token}`]) {
      const answer = await app.request(path, { headers });
      expect(answer.headers.get('x-request-id')).not.toContain(token);
    }
    expect(lines.length).toBeGreaterThan(3);
    expect(lines.join('')).not.toContain(token);
  });
});

describe('requests of web pages', () => {
  const app = createAdminTestApp(['*'], {}, { origins: [ORIGIN, 'http://localhost:3000'] });
  const corsOf = ({ headers }: Response) =>
    [...headers].filter(([name]) => name.startsWith('access-control-') || name === 'vary');
  const preflight = (path: string, headers: Record<string, string>, of = app) =>
    of.request(path, { method: 'OPTIONS', headers: { 'access-control-request-method': 'GET', ...headers } });

  it.each([
    WEBHOOKS,
    `${WEBHOOKS}/one`,
    '/admin/v1/deliveries/one',
    '/admin/v1/jobs/one',
    '/admin/v1/event-types',
  ])('are announced by a preflight request to %s', async (path) => {
    const answer = await preflight(path, { origin: ORIGIN });
    expect([answer.status, await answer.text()]).toEqual([204, '']);
    const headers = Object.fromEntries(corsOf(answer));
    expect(headers).toMatchObject({
      'access-control-allow-origin': ORIGIN,
      'access-control-allow-methods': expect.stringContaining('PATCH'),
      'access-control-allow-headers': 'authorization, content-type, x-request-id',
      vary: expect.stringMatching(/, origin$/),
    });
    expect(headers).not.toHaveProperty('access-control-allow-credentials');
  });

  it('of other origins are refused', async () => {
    for (const origin of [
      'https://evil.example',
      'null',
      `${ORIGIN}.evil.example`,
      'http://portal.example.com',
    ]) {
      const answer = await preflight(WEBHOOKS, { origin });
      expect([answer.status, corsOf(answer).length]).toEqual([403, 1]);
      const { error } = (await answer.json()) as { error: { details: { path: string }[] } };
      expect(error.details[0]!.path).toBe('origin');
      const get = await app.request(WEBHOOKS, { headers: { ...key, origin } });
      expect(get.headers.has('access-control-allow-origin')).toBe(false);
      expect(get.headers.get('vary')).toMatch(/, origin$/);
    }
    expect((await preflight(WEBHOOKS, {})).status).toBe(404);
  });

  it('with an invalid token are told to create another one', async () => {
    const answerTo = async (headers: Record<string, string>) =>
      await (await app.request(WEBHOOKS, { headers })).text();
    expect(await answerTo({ authorization: 'Bearer forged' })).toContain('create another token');
    expect(await answerTo({})).not.toContain('details');
  });

  it('may read every answer of the portal part, refusals included, and no other', async () => {
    const { token } = await createToken(app);
    const get = (path: string, authorization: string) =>
      app.request(path, { headers: { authorization, origin: ORIGIN } });
    for (const [path, authorization, status] of [
      [WEBHOOKS, `Bearer ${token}`, ALLOWED],
      [WEBHOOKS, 'Bearer wrong', 401],
      [`${WEBHOOKS}/one/two/three/four`, `Bearer ${token}`, 404],
    ] as const) {
      const answer = await get(path, authorization);
      expect([path, answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([
        path,
        status,
        ORIGIN,
      ]);
      expect(answer.headers.get('access-control-expose-headers')).toContain('retry-after');
    }
    for (const path of ['/admin/v1/tokens', '/admin/v1/keys', '/admin/v1/webhooks-of-others', '/nothing']) {
      expect((await get(path, `Bearer ${token}`)).headers.has('access-control-allow-origin')).toBe(false);
      expect((await preflight(path, { origin: ORIGIN })).status).toBe(404);
    }
  });

  it('are refused without the setting, which is named', async () => {
    const plain = createAdminTestApp(['*']);
    const refused = await preflight(WEBHOOKS, { origin: ORIGIN }, plain);
    expect([refused.status, await refused.text()]).toEqual([
      403,
      expect.stringContaining('SLUICE_ADMIN_ORIGINS'),
    ]);
    const answer = await plain.request(WEBHOOKS, { headers: { ...key, origin: ORIGIN } });
    expect(corsOf(answer)).toEqual([['vary', 'service-api-id, service-api-secret, authorization']]);
  });
});
