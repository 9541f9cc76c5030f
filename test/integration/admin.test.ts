import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Admin, startAdmin } from '../../admin/start.ts';
import { WEBHOOK_TYPES } from '../../shared/contracts/webhooks.ts';
import { webhookSecretAad } from '../../shared/keyring/webhook-secret-aad.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import { parseAllowRules } from '../../shared/webhooks/addresses.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench } from '../support/webhooks.ts';

const { pool } = await createTestDatabase();
const bench = createWebhookBench(pool);
const lines: string[] = [];
let admin: Admin;
let headers: Record<string, string>;
let strangerHeaders: Record<string, string>;

beforeAll(async () => {
  admin = await startAdmin({
    pool,
    keyRing: bench.keyRing,
    clock: bench.clock,
    nextId: bench.nextId,
    logger: pino({ level: 'trace' }, { write: (line: string) => lines.push(line) }),
    allow: parseAllowRules('127.0.0.0/8'),
    endpointsMax: 20,
    host: '127.0.0.1',
    port: 0,
    drainDelayMs: 0,
  });
  headers = await keyOf('tenant-a', ['webhooks:manage', 'events:read']);
  strangerHeaders = await keyOf('tenant-b', ['*']);
});

afterAll(() => admin.stop());

async function keyOf(tenantId: string, scopes: string[]): Promise<Record<string, string>> {
  const { rowCount } = await pool.query('select 1 from tenants where tenant_id = $1', [tenantId]);
  if (rowCount === 0) await bench.tenant(tenantId);
  const apiKeyId = bench.nextId();
  const secret = await createApiKey(pool, {
    apiKeyId,
    tenantId,
    scopes,
    rate: undefined,
    createdAtMs: Date.now(),
  });
  return { 'service-api-id': apiKeyId, 'service-api-secret': secret };
}

async function call(method: string, path: string, body?: unknown, credentials = headers) {
  const response = await fetch(`http://127.0.0.1:${admin.port}${path}`, {
    method,
    headers: { ...credentials, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text), response };
}

const codeOf = ({ status, body }: Awaited<ReturnType<typeof call>>) => [status, body.error.code];

test('a webhook endpoint is created, shown without its secret, and deleted', async () => {
  const url = 'http://127.0.0.1:9/hooks';
  const created = await call('POST', '/admin/v1/webhooks', {
    url,
    eventTypes: ['automation.reply', 'automation.reply'],
  });
  expect(created.status).toBe(201);
  expect(created.body).toEqual({
    endpointId: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/),
    url,
    eventTypes: ['automation.reply'],
    secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
  });
  const { secret, ...shown } = created.body;
  const path = `/admin/v1/webhooks/${shown.endpointId}`;
  expect((await call('GET', path)).body).toEqual({
    ...shown,
    state: 'enabled',
    createdBy: headers['service-api-id'],
  });
  expect((await call('GET', '/admin/v1/webhooks')).body.items).toContainEqual({
    ...shown,
    state: 'enabled',
    createdBy: headers['service-api-id'],
  });

  const { rows } = await pool.query('select * from webhook_endpoints where endpoint_id = $1', [
    shown.endpointId,
  ]);
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  expect(rows[0].secret_ciphertext.includes(key)).toBe(false);
  const aad = webhookSecretAad('tenant-a', shown.endpointId);
  expect(bench.keyRing.decrypt(rows[0].secret_key_id, rows[0].secret_ciphertext, aad)).toEqual(key);
  expect(lines.join('')).not.toContain(secret);

  expect(codeOf(await call('GET', path, undefined, strangerHeaders))).toEqual([404, '404-01']);
  expect(codeOf(await call('DELETE', path, undefined, strangerHeaders))).toEqual([404, '404-01']);
  expect(await call('DELETE', path)).toMatchObject({ status: 204, body: undefined });
  expect(codeOf(await call('DELETE', path))).toEqual([404, '404-01']);
  expect(codeOf(await call('GET', path))).toEqual([404, '404-01']);
});

test('a tenant gets at most 20 webhook endpoints from concurrent requests', async () => {
  const crowded = await keyOf('tenant-crowded', ['webhooks:manage']);
  const url = 'https://example.com/';
  const create = () => call('POST', '/admin/v1/webhooks', { url }, crowded);
  const answers = await Promise.all(Array.from({ length: 23 }, create));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(20);
  const refused = answers.filter(({ status }) => status === 422);
  expect(refused).toHaveLength(3);
  expect(refused[0]!.body.error).toMatchObject({
    code: '422-01',
    details: [{ path: 'body', message: 'a tenant may have at most 20 webhook endpoints: delete one first' }],
  });

  // Deleted endpoints do not count.
  const { endpointId } = answers.find(({ status }) => status === 201)!.body;
  expect((await call('DELETE', `/admin/v1/webhooks/${endpointId}`, undefined, crowded)).status).toBe(204);
  expect((await create()).status).toBe(201);
  expect((await create()).status).toBe(422);
});

test('a tenant over its webhook endpoint limit keeps its endpoints and cannot add any', async () => {
  const above = await keyOf('tenant-above', ['webhooks:manage']);
  for (let i = 0; i < 25; i += 1) await bench.endpoint('tenant-above', 'https://example.com/');
  const refused = await call('POST', '/admin/v1/webhooks', { url: 'https://example.com/' }, above);
  expect(codeOf(refused)).toEqual([422, '422-01']);
  expect((await call('GET', '/admin/v1/webhooks', undefined, above)).body.items).toHaveLength(25);
});

test('a webhook endpoint without types receives all', async () => {
  const created = await call('POST', '/admin/v1/webhooks', { url: 'https://example.com/', eventTypes: null });
  expect(created.body.eventTypes).toBeNull();
});

test.each([
  [{ url: 'http://example.com/' }, 'url'],
  [{ url: 'https://user:pw@example.com/' }, 'url'],
  [{ url: 'https://169.254.169.254/' }, 'url'],
  [{ url: 'https://example.com/', eventTypes: ['automation.unknown'] }, 'eventTypes[0]'],
])('%j is 422-01 naming %s', async (body, path) => {
  const answer = await call('POST', '/admin/v1/webhooks', body);
  expect(codeOf(answer)).toEqual([422, '422-01']);
  expect(answer.body.error.details[0].path).toBe(path);
});

test('the admin listener applies the checks of the gateway', async () => {
  expect(codeOf(await call('GET', '/admin/v1/webhooks', undefined, {}))).toEqual([401, '401-01']);
  const reader = await keyOf('tenant-a', ['events:read']);
  expect(codeOf(await call('POST', '/admin/v1/webhooks', '{', reader))).toEqual([403, '403-01']);
  expect(codeOf(await call('POST', '/admin/v1/webhooks', '{'))).toEqual([400, '400-01']);
  expect(codeOf(await call('POST', '/admin/v1/webhooks', `"${'x'.repeat(70_000)}"`))).toEqual([
    413,
    '413-01',
  ]);
  expect(codeOf(await call('PUT', '/admin/v1/webhooks'))).toEqual([404, '404-01']);
  expect(codeOf(await call('GET', '/admin/v1/nothing'))).toEqual([404, '404-01']);
  expect(codeOf(await call('GET', '/admin/v1/webhooks/%zz'))).toEqual([400, '400-01']);
  const named = await call('GET', '/admin/v1/events/x', undefined, { ...headers, 'x-request-id': 'mine' });
  expect(named.body.error.requestId).toBe('mine');
  expect(named.response.headers.get('x-request-id')).toBe('mine');
});

test('health of the admin listener needs no key', async () => {
  await waitFor(async () => (await call('GET', '/health/ready', undefined, {})).status === 200, {
    timeoutMs: 5000,
    what: 'ready',
  });
  expect((await call('GET', '/health/live', undefined, {})).status).toBe(200);
});

test('an event is found by its id, and by its kind if several have the id', async () => {
  const acceptedAt = new Date('2026-01-02T03:04:05.006Z');
  const storedAt = new Date('2026-01-02T03:04:06.007Z');
  const insert = (tenantId: string, kind: string, key: string, status: string, error: string | null) =>
    pool.query(
      `insert into event_keys (tenant_id, kind, key, status, conflicts, error, generation, partition, "offset",
                               accepted_at, stored_at, updated_at, expires_at)
       values ($1, $2, $3, $4, 2, $5, 1, 0, 0, $6, $7, $7, $7)`,
      [tenantId, kind, key, status, error, acceptedAt, storedAt],
    );
  await insert('tenant-a', 'message-sent', 'm/1 ż', 'stored', null);
  await insert('tenant-a', 'message-sent', 'two', 'stored', null);
  await insert('tenant-a', 'agent-metadata', 'two', 'dead-lettered', 'conflict');
  await insert('tenant-b', 'message-sent', 'theirs', 'stored', null);
  await pool.query(
    `update event_keys set conflict_at = $1, conflict_generation = 1, conflict_partition = 3, conflict_offset = 1207
      where kind = 'message-sent' and key = 'two'`,
    [storedAt],
  );

  expect((await call('GET', `/admin/v1/events/${encodeURIComponent('m/1 ż')}`)).body).toEqual({
    id: 'm/1 ż',
    kind: 'message-sent',
    status: 'stored',
    acceptedAt: acceptedAt.toISOString(),
    storedAt: storedAt.toISOString(),
    conflicts: 2,
  });
  const several = await call('GET', '/admin/v1/events/two');
  expect(codeOf(several)).toEqual([400, '400-01']);
  expect(several.body.error.details).toEqual([
    { path: 'kind', message: expect.stringContaining('agent-metadata, message-sent') },
  ]);
  expect((await call('GET', '/admin/v1/events/two?kind=agent-metadata')).body).toMatchObject({
    status: 'dead-lettered',
    storedAt: null,
    error: 'conflict',
    position: { generation: 1, partition: 0, offset: '0' },
  });
  expect((await call('GET', '/admin/v1/events/two?kind=message-sent')).body).toMatchObject({
    conflicts: 2,
    lastConflict: {
      at: storedAt.toISOString(),
      position: { generation: 1, partition: 3, offset: '1207' },
    },
  });
  expect(codeOf(await call('GET', '/admin/v1/events/two?kind=nothing'))).toEqual([400, '400-01']);
  expect(codeOf(await call('GET', '/admin/v1/events/two?other=1'))).toEqual([400, '400-01']);
  const theirs = await call('GET', '/admin/v1/events/theirs');
  expect(codeOf(theirs)).toEqual([404, '404-01']);
  // An unknown path has no details.
  expect(theirs.body.error.details).toEqual([{ path: 'id', message: 'is not known (yet)' }]);
  expect(codeOf(await call('GET', '/admin/v1/events/two?kind=credentials'))).toEqual([404, '404-01']);
});

test('a webhook endpoint can select every type', async () => {
  const body = { url: 'https://example.com/', eventTypes: WEBHOOK_TYPES };
  expect((await call('POST', '/admin/v1/webhooks', body)).body.eventTypes).toEqual(WEBHOOK_TYPES);
});
