import { expect, it } from 'vitest';
import type { ApiKey } from '../../../shared/postgres/api-key-lookup.ts';
import { createAdminTestApp } from '../../support/admin-app.ts';
import { SECRET } from '../../support/gateway-app.ts';

const LIMITS: ApiKey['limits'] = {
  tenantRate: 'default',
  keyRate: undefined,
  byteRate: 'none',
  dailyQuota: undefined,
};

/** Sends `count` concurrent requests; returns the number of refusals and the last answer. */
async function flood(limits: Partial<ApiKey['limits']>, method: string, path: string, count: number) {
  const app = createAdminTestApp(['*'], { limits: { ...LIMITS, ...limits } });
  const headers = { 'service-api-id': 'key-1', 'service-api-secret': SECRET };
  const answers = await Promise.all(
    Array.from({ length: count }, () => app.request(path, { method, headers })),
  );
  return { refused: answers.filter(({ status }) => status === 429).length, last: answers.at(-1)!, app };
}

it.each([
  ['GET', '/admin/v1/keys/%zz'],
  ['DELETE', '/admin/v1/keys/%zz'],
  ['POST', '/admin/v1/keys'],
  ['POST', '/admin/v1/keys/key-1/rotate'],
  ['GET', '/admin/v1/webhooks/%zz'],
  ['POST', '/admin/v1/webhooks'],
  ['DELETE', '/admin/v1/webhooks/%zz'],
  ['GET', '/admin/v1/events/%zz'],
  ['GET', '/internal/v1/conversations/not-an-id/credentials'],
  ['DELETE', '/internal/v1/conversations/not-an-id/credentials'],
  ['GET', '/internal/v1/credential-reads?limit=0'],
])('%s %s is answered 429-01 over a burst of 200 requests', async (method, path) => {
  const { refused, last } = await flood({}, method, path, 201);
  expect(refused).toBe(1);
  expect(last.status).toBe(429);
  expect(last.headers.get('retry-after')).toBe('1');
  expect(await last.json()).toMatchObject({
    error: {
      code: '429-01',
      details: [{ path: 'requests', message: 'requests that need one scope are limited to 100 per second' }],
    },
  });
});

it.each<[string, Partial<ApiKey['limits']>, number]>([
  ["a tenant's own rate is lower", { tenantRate: 5 }, 41],
  ["a tenant's own rate is higher", { tenantRate: 5000 }, 0],
  ['a key has its own rate', { keyRate: 5 }, 41],
  ['a tenant has no limit', { tenantRate: 'none' }, 0],
])('the admin rate applies when %s', async (_what, limits, refused) => {
  expect((await flood(limits, 'GET', '/admin/v1/events/%zz', 51)).refused).toBe(refused);
});

it('the admin rate counts each scope separately', async () => {
  const { app } = await flood({}, 'GET', '/admin/v1/events/%zz', 201);
  const headers = { 'service-api-id': 'key-1', 'service-api-secret': SECRET };
  expect((await app.request('/admin/v1/events/%zz', { headers })).status).toBe(429);
  expect((await app.request('/internal/v1/credential-reads?limit=0', { headers })).status).toBe(400);
});
