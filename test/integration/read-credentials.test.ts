import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Admin, startAdmin } from '../../admin/start.ts';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import { type CredentialsRow, insertCredentials } from '../../workers/sql/credentials.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { createWebhookBench } from '../support/webhooks.ts';

const HOUR_MS = 3_600_000;
/** Free-form members: numbers that no double represents, odd spaces, a repeated name. */
const AUTH = '{"token":"planted-secret","body":{ "n":90071992547409931 , "n":1.0,"é":"\\u00e9" }}';

const { pool } = await createTestDatabase();
const { clock, nextId, tenant } = createWebhookBench(pool);
const keyRing = createKeyRing(generateKeySpec());
const lines: string[] = [];
let admin: Admin;
let engine: Record<string, string>;
let stranger: Record<string, string>;
let offset = 0n;

beforeAll(async () => {
  admin = await startAdmin({
    pool,
    keyRing,
    clock,
    nextId,
    logger: pino({ level: 'trace' }, { write: (line: string) => lines.push(line) }),
    allow: [],
    topicPrefix: 'sluice.',
    endpointsMax: 20,
    host: '127.0.0.1',
    port: 0,
    drainDelayMs: 0,
  });
  await tenant('tenant-a');
  await tenant('tenant-b');
  engine = await keyOf('tenant-a', 'credentials:read');
  stranger = await keyOf('tenant-b', '*');
});

afterAll(() => admin.stop());

async function keyOf(tenantId: string, ...scopes: string[]): Promise<Record<string, string>> {
  const apiKeyId = nextId();
  const secret = await createApiKey(pool, { apiKeyId, tenantId, scopes, rate: undefined, createdAtMs: 0 });
  return { 'service-api-id': apiKeyId, 'service-api-secret': secret };
}

async function store(conversationId: string, auth: string, changes: Partial<CredentialsRow> = {}) {
  const acceptedAtMs = clock.nowMs();
  offset += 1n;
  const row = {
    tenantId: 'tenant-a',
    conversationId,
    eventId: nextId(),
    customerExternalId: 'customer-1',
    streamId: null,
    ...keyRing.encrypt(Buffer.from(auth), ['tenant-a', conversationId]),
    acceptedAtMs,
    expiresAtMs: acceptedAtMs + HOUR_MS,
    generation: 1,
    partition: 0,
    offset,
    requestId: 'request-1',
    ...changes,
  };
  await insertCredentials(pool, [row], acceptedAtMs);
  return row;
}

async function get(path: string, credentials = engine) {
  const response = await fetch(`http://127.0.0.1:${admin.port}${path}`, {
    headers: { ...credentials, 'x-request-id': 'read-1' },
  });
  const text = await response.text();
  return { status: response.status, text, json: JSON.parse(text), headers: response.headers };
}

const read = (conversationId: string, credentials = engine) =>
  get(`/internal/v1/conversations/${conversationId}/credentials`, credentials);

async function audit(conversationId: string, credentials = engine) {
  const { json } = await get(`/internal/v1/credential-reads?conversationId=${conversationId}`, credentials);
  return json.items;
}

test('the newest submission is returned unchanged, and the read is in the audit', async () => {
  await store('CHAT1', '{"token":"older"}');
  const row = await store('CHAT1', AUTH, { streamId: 'stream-1', customerExternalId: 'customer-2' });
  // A replay is stored late, but its position in the log decides which submission is the newest.
  await store('CHAT1', '{"token":"replayed"}', { offset: 0n });

  const { status, text, json, headers } = await read('CHAT1');
  expect([status, headers.get('content-type'), headers.get('cache-control')]).toEqual([
    200,
    'application/json',
    'no-store',
  ]);
  expect(text).toContain(`"auth":${AUTH}`);
  expect({ ...json, auth: undefined }).toEqual({
    conversationId: 'CHAT1',
    customerExternalId: 'customer-2',
    streamId: 'stream-1',
    acceptedAt: new Date(row.acceptedAtMs).toISOString(),
    expiresAt: new Date(row.expiresAtMs).toISOString(),
  });
  expect(await audit('CHAT1')).toEqual([
    {
      readId: expect.stringMatching(/^[0-9A-Z]{26}$/),
      readAt: expect.stringMatching(/^\d{4}-.*Z$/),
      apiKeyId: engine['service-api-id'],
      requestId: 'read-1',
      conversationId: 'CHAT1',
      outcome: 'read',
      eventId: row.eventId,
    },
  ]);
});

test('an unknown conversation and one of another tenant are answered alike, and both reads are in the audit of the reader', async () => {
  await store('CHAT2', AUTH);
  expect((await read('NOBODY')).json.error.code).toBe('404-01');
  expect((await read('CHAT2', stranger)).json.error.code).toBe('404-01');
  expect(await audit('NOBODY')).toMatchObject([{ outcome: 'missing', eventId: null }]);
  expect(await audit('CHAT2', stranger)).toMatchObject([{ outcome: 'missing', eventId: null }]);
  expect(await audit('CHAT2')).toEqual([]);
});

test('expired or erased credentials are not returned; an older valid submission is', async () => {
  const past = clock.nowMs() - 1;
  const expired = await store('CHAT3', AUTH, { expiresAtMs: past });
  expect((await read('CHAT3')).json.error.code).toBe('404-01');
  expect(await audit('CHAT3')).toMatchObject([{ outcome: 'expired', eventId: expired.eventId }]);

  const erased = await store('CHAT4', AUTH, { ciphertext: null });
  expect((await read('CHAT4')).json.error.code).toBe('404-01');
  expect(await audit('CHAT4')).toMatchObject([{ outcome: 'erased', eventId: erased.eventId }]);

  await store('CHAT5', '{"token":"long"}');
  await store('CHAT5', '{"token":"short"}', { expiresAtMs: past });
  expect((await read('CHAT5')).json.auth).toEqual({ token: 'long' });
});

test('a lost encryption key and the ciphertext of another conversation are 500-01, logged and in the audit', async () => {
  const lost = createKeyRing(`lost:${Buffer.alloc(32).toString('base64')}`);
  await store('CHAT6', AUTH, lost.encrypt(Buffer.from(AUTH), ['tenant-a', 'CHAT6']));
  const answer = await read('CHAT6');
  expect([answer.status, answer.json.error]).toEqual([
    500,
    { requestId: 'read-1', code: '500-01', message: 'Internal server error' },
  ]);
  expect(await audit('CHAT6')).toMatchObject([{ outcome: 'key-lost' }]);
  expect(
    lines.filter((line) => line.includes('KEY_LOST') && line.includes('"requestId":"read-1"')),
  ).toHaveLength(1);

  await store('CHAT7', AUTH, keyRing.encrypt(Buffer.from(AUTH), ['tenant-a', 'CHAT6']));
  expect((await read('CHAT7')).json.error.code).toBe('500-01');
  expect(await audit('CHAT7')).toMatchObject([{ outcome: 'unreadable' }]);
});

test('a DELETE erases all submissions of a conversation, is idempotent, and each one is in the audit', async () => {
  const eraser = await keyOf('tenant-a', 'credentials:erase');
  const erase = async (conversationId: string, credentials: Record<string, string>) => {
    const path = `/internal/v1/conversations/${conversationId}/credentials`;
    const response = await fetch(`http://127.0.0.1:${admin.port}${path}`, {
      method: 'DELETE',
      headers: { ...credentials, 'x-request-id': 'erase' },
    });
    return [response.status, await response.text()];
  };
  await store('CHATE', AUTH);
  await store('CHATE', AUTH);
  await store('CHATF', AUTH);
  expect(await erase('CHATE', engine)).toEqual([403, expect.stringContaining('403-01')]);
  expect(await erase('CHATE', stranger)).toEqual([204, '']);
  expect((await read('CHATE')).status).toBe(200);
  expect(await erase('CHATE', eraser)).toEqual([204, '']);
  expect(await erase('CHATE', eraser)).toEqual([204, '']);
  expect(await erase('chat', eraser)).toEqual([400, expect.stringContaining('400-01')]);
  const { rows } = await pool.query(
    "select conversation_id, count(ciphertext)::int as left from credentials where conversation_id in ('CHATE', 'CHATF') group by 1 order by 1",
  );
  expect(rows).toEqual([
    { conversation_id: 'CHATE', left: 0 },
    { conversation_id: 'CHATF', left: 1 },
  ]);
  expect((await read('CHATE')).json.error.code).toBe('404-01');
  const erasure = {
    outcome: 'erasure',
    apiKeyId: eraser['service-api-id'],
    requestId: 'erase',
    eventId: null,
  };
  expect(await audit('CHATE')).toMatchObject([{ outcome: 'erased' }, erasure, erasure, { outcome: 'read' }]);
  expect(await audit('CHATE', stranger)).toMatchObject([{ outcome: 'erasure' }]);

  // The later submission is read, even if an earlier one is stored after it.
  await store('CHATE', '{"token":"new"}');
  await store('CHATE', AUTH, { ciphertext: null });
  expect((await read('CHATE')).json.auth).toEqual({ token: 'new' });
});

test('a read with another scope, no key or a malformed conversation id is refused', async () => {
  await store('CHAT8', AUTH);
  const others = await keyOf('tenant-a', 'credentials:write', 'events:read', 'webhooks:manage');
  expect((await read('CHAT8', others)).json.error.code).toBe('403-01');
  expect((await get('/internal/v1/credential-reads', others)).json.error.code).toBe('403-01');
  expect((await read('CHAT8', {})).json.error.code).toBe('401-01');
  for (const malformed of ['chat8', '%zz', 'CHAT8%2F', 'A'.repeat(257)]) {
    expect([malformed, (await read(malformed)).json.error.code]).toEqual([malformed, '400-01']);
  }
  expect(await audit('CHAT8')).toEqual([]);
});

test('no credentials are returned while the audit cannot be written', async () => {
  await store('CHAT9', AUTH);
  await pool.query('alter table credential_reads rename to credential_reads_away');
  try {
    const { status, text } = await read('CHAT9');
    expect(status).toBe(500);
    expect(text).not.toContain('planted-secret');
  } finally {
    await pool.query('alter table credential_reads_away rename to credential_reads');
  }
  expect((await read('CHAT9')).status).toBe(200);
});

test('the audit of reads is listed in pages, newest first', async () => {
  await store('CHATA', AUTH);
  for (let i = 0; i < 3; i++) await read('CHATA');
  const all = await audit('CHATA');
  const times = all.map(({ readAt, readId }: Record<string, string>) => `${readAt} ${readId}`);
  expect(times).toEqual([...times].sort().reverse());
  const first = (await get('/internal/v1/credential-reads?conversationId=CHATA&limit=2')).json;
  expect(first.items).toEqual(all.slice(0, 2));
  const second = (
    await get(`/internal/v1/credential-reads?conversationId=CHATA&limit=2&before=${first.next}`)
  ).json;
  expect(second).toEqual({ items: all.slice(2) });
});

test.each(['limit=0', 'limit=1001', 'limit=x', 'before=x', 'conversationId=a', 'other=1', 'limit=1&limit=2'])(
  'a list of reads with the query %s is refused with 400-01',
  async (query) => {
    expect((await get(`/internal/v1/credential-reads?${query}`)).json.error.code).toBe('400-01');
  },
);

test('neither the log nor the audit contains the credentials that were read', async () => {
  expect(lines.length).toBeGreaterThan(10);
  expect(lines.join('')).not.toContain('planted-secret');
  const { rows } = await pool.query('select * from credential_reads');
  expect(JSON.stringify(rows)).not.toContain('planted-secret');
});
