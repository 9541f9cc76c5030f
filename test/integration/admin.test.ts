import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Admin, startAdmin } from '../../admin/start.ts';
import { WEBHOOK_TYPES } from '../../shared/contracts/webhooks.ts';
import { webhookSecretAad } from '../../shared/keyring/webhook-secret-aad.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import { ROWS_SEARCHED_MAX } from '../../shared/postgres/entities.ts';
import { PAGE_BYTES_MAX } from '../../shared/postgres/page-bytes.ts';
import { parseAllowRules } from '../../shared/webhooks/addresses.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench } from '../support/webhooks.ts';
import { createWorkerBench } from '../support/worker-bench.ts';

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
    topicPrefix: 'sluice.',
    endpointsMax: 20,
    origins: ['https://portal.example.com'],
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
    description: null,
    headerNames: [],
    ratePerSecond: null,
    retrySchedule: 'standard',
    state: 'enabled',
    health: 'healthy',
    failures: 0,
    lastSuccessAt: null,
    lastFailureAt: null,
    previousSecretValidUntil: null,
    createdBy: headers['service-api-id'],
    secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
  });
  const { secret, ...shown } = created.body;
  const path = `/admin/v1/webhooks/${shown.endpointId}`;
  const empty = { waiting: 0, inFlight: 0, nextAttemptAt: null };
  expect((await call('GET', path)).body).toEqual({ ...shown, ...empty });
  await pool.query(
    `insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, due_at, lease_token, parked)
     select 'tenant-a', $1, 'm' || n, $2, n, $2, case when n = 2 then 'x' end, n = 3 from generate_series(1, 3) n`,
    [shown.endpointId, new Date('2100-01-01T00:00:00Z')],
  );
  expect((await call('GET', path)).body).toMatchObject({
    waiting: 2,
    inFlight: 1,
    nextAttemptAt: '2100-01-01T00:00:00.000Z',
  });
  expect((await call('GET', '/admin/v1/webhooks')).body.items).toContainEqual(shown);

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

test('a portal token manages the webhooks of its tenant until its key is revoked', async () => {
  const key = await keyOf('tenant-a', ['webhooks:manage', 'keys:manage']);
  const tokenOf = async () => {
    const created = await call('POST', '/admin/v1/tokens', undefined, key);
    expect(created.status).toBe(201);
    return { token: created.body.token, headers: { authorization: `Bearer ${created.body.token}` } };
  };
  const withBody = await call('POST', '/admin/v1/tokens', { ttl: 60 }, key);
  expect([...codeOf(withBody), withBody.body.error.details[0].path]).toEqual([400, '400-01', 'body']);
  const { token, headers: portal } = await tokenOf();
  const origin = { origin: 'https://portal.example.com' };
  const preflight = await fetch(`http://127.0.0.1:${admin.port}/admin/v1/webhooks`, {
    method: 'OPTIONS',
    headers: { ...origin, 'access-control-request-method': 'POST' },
  });
  expect([preflight.status, preflight.headers.get('access-control-allow-origin')]).toEqual([
    204,
    origin.origin,
  ]);
  const body = { url: 'http://127.0.0.1:9/portal' };
  const created = await call('POST', '/admin/v1/webhooks', body, { ...portal, ...origin });
  expect(created.status).toBe(201);
  expect(created.response.headers.get('access-control-allow-origin')).toBe(origin.origin);
  const path = `/admin/v1/webhooks/${created.body.endpointId}`;
  expect((await call('GET', path, undefined, portal)).body.createdBy).toBe(key['service-api-id']);
  const theirs = await call('POST', '/admin/v1/webhooks', body, strangerHeaders);
  const other = `/admin/v1/webhooks/${theirs.body.endpointId}`;
  expect(codeOf(await call('GET', other, undefined, portal))).toEqual([404, '404-01']);
  expect(codeOf(await call('DELETE', other, undefined, portal))).toEqual([404, '404-01']);
  expect(codeOf(await call('GET', '/admin/v1/keys', undefined, portal))).toEqual([403, '403-01']);
  expect((await call('DELETE', path, undefined, portal)).status).toBe(204);

  const ofKey = `/admin/v1/keys/${key['service-api-id']}`;
  const rotated = await call('POST', `${ofKey}/rotate`, { overlapSeconds: 0 }, key);
  expect(codeOf(await call('GET', '/admin/v1/webhooks', undefined, portal))).toEqual([401, '401-01']);
  key['service-api-secret'] = rotated.body.apiKeySecret;
  const next = await tokenOf();
  expect((await call('GET', '/admin/v1/webhooks', undefined, next.headers)).status).toBe(200);
  await pool.query(`update tenants set disabled_at = $1 where tenant_id = 'tenant-a'`, [new Date()]);
  expect(codeOf(await call('GET', '/admin/v1/webhooks', undefined, next.headers))).toEqual([403, '403-01']);
  await pool.query(`update tenants set disabled_at = null where tenant_id = 'tenant-a'`);
  expect((await call('DELETE', ofKey, undefined, key)).status).toBe(204);
  expect(codeOf(await call('GET', '/admin/v1/webhooks', undefined, next.headers))).toEqual([401, '401-01']);
  for (const text of [token, next.token]) expect(lines.join('')).not.toContain(text);
});

test('a webhook endpoint is changed, paused, resumed, rotated and enabled by its tenant only', async () => {
  const secret = `whsec_${Buffer.alloc(64, 9).toString('base64')}`;
  const created = await call('POST', '/admin/v1/webhooks', {
    url: 'http://127.0.0.1:9/',
    eventTypes: ['automation.*'],
    headers: { Authorization: 'Bearer planted-header' },
    secret,
  });
  expect([created.status, created.body.secret]).toEqual([201, secret]);
  const path = `/admin/v1/webhooks/${created.body.endpointId}`;
  const changed = await call('PATCH', path, {
    url: 'http://127.0.0.1:9/new',
    description: 'CRM',
    ratePerSecond: 20,
    retrySchedule: 'none',
  });
  expect(changed).toMatchObject({
    status: 200,
    body: {
      url: 'http://127.0.0.1:9/new',
      eventTypes: ['automation.*'],
      description: 'CRM',
      headerNames: ['Authorization'],
      ratePerSecond: 20,
      retrySchedule: 'none',
    },
  });
  expect((await call('PATCH', path, { headers: null })).body.headerNames).toEqual([]);
  expect((await call('POST', `${path}/pause`)).body.health).toBe('paused');
  expect((await call('POST', `${path}/resume`)).body.health).toBe('healthy');
  const rotated = await call('POST', `${path}/rotate`, { overlapSeconds: 60 });
  expect(rotated.body.secret).not.toBe(secret);
  const { previousSecretValidUntil } = rotated.body;
  expect((await call('GET', path)).body).toMatchObject({ previousSecretValidUntil });
  expect(codeOf(await call('POST', `${path}/rotate`, {}))).toEqual([409, '409-01']);
  expect((await call('POST', `${path}/rotate`, { overlapSeconds: 0 })).body).toMatchObject({
    previousSecretValidUntil: null,
  });
  await pool.query(
    "update webhook_endpoints set state = 'disabled', disabled_reason = 'failing' where endpoint_id = $1",
    [created.body.endpointId],
  );
  expect((await call('GET', path)).body.health).toBe('disabled because it failed for 5 days');
  for (const change of ['pause', 'resume']) {
    const refused = await call('POST', `${path}/${change}`);
    expect([...codeOf(refused), refused.body.error.details]).toEqual([
      409,
      '409-01',
      [
        {
          path: 'endpointId',
          message: 'is disabled because it failed for 5 days: enable the endpoint first',
        },
      ],
    ]);
  }
  expect((await call('POST', `${path}/enable`)).body).toMatchObject({ state: 'enabled', health: 'healthy' });
  for (const planted of ['planted-header', secret, rotated.body.secret]) {
    expect(lines.join('')).not.toContain(planted);
  }

  const calls = [
    ['PATCH', path, { description: 'theirs' }],
    ...['pause', 'resume', 'enable'].map((name) => ['POST', `${path}/${name}`, undefined] as const),
    ['POST', `${path}/rotate`, {}],
  ] as const;
  for (const [method, url, body] of calls) {
    expect(codeOf(await call(method, url, body, strangerHeaders))).toEqual([404, '404-01']);
  }
  for (const [body, at] of [
    [{}, 'body'],
    [{ url: 'http://10.0.0.1/' }, 'url'],
    [{ headers: { 'webhook-id': 'x' } }, 'headers.webhook-id'],
    [{ eventTypes: ['webhook.tset'] }, 'eventTypes[0]'],
    [{ description: 'x', state: 'paused' }, 'state'],
  ] as const) {
    const refused = await call('PATCH', path, body);
    expect([...codeOf(refused), refused.body.error.details[0].path]).toEqual([422, '422-01', at]);
  }
  expect((await call('DELETE', path)).status).toBe(204);
  expect(codeOf(await call('PATCH', path, { description: 'x' }))).toEqual([404, '404-01']);
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
    deliveries: [],
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

test('an agent is returned as stored, with its records in the order in which they were merged', async () => {
  const worker = await createWorkerBench(pool, agentMetadata, 'merged.');
  const reader = await keyOf(worker.tenantId, ['records:read']);
  const externalAgentId = 'Ada / 1 %2F \u00e4';
  const patches = [
    {
      externalAgentId,
      startTs: '2026-03-04T05:06:07.123456789+02:00',
      agentName: 'Ada',
      languages: ['en-gb'],
      ranking: -7,
      attributes: [{ name: 'desk', value: '4.17' }],
    },
    { externalAgentId, agentName: null, lobId: 'lob-1' },
    { externalAgentId, languages: [] },
  ];
  const { ms } = worker.clock;
  for (const [i, patch] of patches.entries()) {
    // The clock of the last gateway is late.
    worker.append(patch, {
      id: `event-${i}`,
      entity: externalAgentId,
      acceptedAtMs: i === 2 ? ms - 1000 : ms,
    });
  }
  const { consumer, close } = worker.startWorker();
  await consumer.read(0);
  await close();

  const path = `/admin/v1/agents/${encodeURIComponent(externalAgentId)}`;
  const shown = {
    externalAgentId,
    startTs: '2026-03-04T03:06:07.123456789Z',
    lobId: 'lob-1',
    languages: [],
    ranking: -7,
    attributes: [{ name: 'desk', value: '4.17' }],
    updatedAt: new Date(ms).toISOString(),
  };
  const read = (query: string) => call('GET', `${path}${query}`, undefined, reader);
  expect(await read('')).toMatchObject({ status: 200, body: shown });
  expect((await read('?history=false')).body).toEqual(shown);
  const items = patches.map((patch, i) => ({
    position: { generation: 1, partition: 0, offset: String(i) },
    eventId: `event-${i}`,
    acceptedAt: new Date(i === 2 ? ms - 1000 : ms).toISOString(),
    patch,
  }));
  expect((await read('?history=true')).body).toEqual({ ...shown, history: { items } });

  const first = (await read('?history=true&limit=2')).body.history;
  expect(first.items).toEqual(items.slice(0, 2));
  expect((await read(`?history=true&cursor=${first.next}`)).body.history).toEqual({ items: [items[2]] });
  const unknown = [
    { path: 'cursor', message: 'must be the next of an earlier answer, with the same filters' },
  ];
  const other = await call('GET', `/admin/v1/agents/x?history=true&cursor=${first.next}`, undefined, reader);
  expect([other.status, other.body.error.details]).toEqual([400, unknown]);
  for (const [query, detail] of [
    ['?history=yes', { path: 'history', message: 'must be true or false' }],
    ['?limit=1', { path: 'limit', message: 'needs history=true' }],
    [`?cursor=${first.next}`, { path: 'cursor', message: 'needs history=true' }],
    ['?history=true&limit=1001', { path: 'limit', message: 'must be a whole number from 1 to 1000' }],
  ] as const) {
    const refused = await read(query);
    expect([query, refused.status, refused.body.error.details]).toEqual([query, 400, [detail]]);
  }

  // For another tenant, the agent is as unknown as one that does not exist.
  const answers = await Promise.all([
    call('GET', path, undefined, strangerHeaders),
    call('GET', `${path}?history=true`, undefined, strangerHeaders),
    call('GET', '/admin/v1/agents/nobody', undefined, strangerHeaders),
    call('GET', '/admin/v1/conversations/nobody', undefined, reader),
  ]);
  expect(answers.map(({ status, body }) => [status, body.error.code, body.error.details[0].message])).toEqual(
    answers.map(() => [404, '404-01', 'is not known (yet)']),
  );
  expect(codeOf(await call('GET', '/admin/v1/agents/a%00b', undefined, reader))).toEqual([404, '404-01']);
});

test('conversations are listed in pages that neither repeat nor skip one while others are stored', async () => {
  const worker = await createWorkerBench(pool, conversationMetadata, 'listed.');
  const reader = await keyOf(worker.tenantId, ['records:read']);
  const { consumer, close } = worker.startWorker();
  const store = async (...numbers: number[]) => {
    for (const n of numbers) {
      const id = `chat-${n}`;
      const record = { externalConversationId: id, campaign: n % 2 === 0 ? 'even' : 'odd', platform: 'WEB' };
      worker.append(record, { entity: id });
    }
    await consumer.read(0);
  };
  const list = (query: string, key = reader) =>
    call('GET', `/admin/v1/conversations?${query}`, undefined, key);
  const idsOf = ({ body }: Awaited<ReturnType<typeof list>>) =>
    body.items.map((item: { externalConversationId: string }) => item.externalConversationId);

  await store(2, 4, 6, 8);
  const first = await list('limit=2');
  expect(idsOf(first)).toEqual(['chat-2', 'chat-4']);
  worker.clock.ms += 60_000;
  await store(1, 3, 5, 8);
  const second = await list(`limit=2&cursor=${first.body.next}`);
  expect(idsOf(second)).toEqual(['chat-5', 'chat-6']);
  const last = await list(`limit=2&cursor=${second.body.next}`);
  expect(last.body).toEqual({
    items: [
      {
        externalConversationId: 'chat-8',
        campaign: 'even',
        platform: 'WEB',
        updatedAt: new Date(worker.clock.ms).toISOString(),
      },
    ],
  });
  await close();

  expect(idsOf(await list('campaign=odd&platform=WEB'))).toEqual(['chat-1', 'chat-3', 'chat-5']);
  expect(idsOf(await list('campaign=odd&platform=IOS'))).toEqual([]);
  const since = encodeURIComponent(new Date(worker.clock.ms).toISOString());
  expect(idsOf(await list(`updatedSince=${since}`))).toEqual(['chat-1', 'chat-3', 'chat-5', 'chat-8']);
  const odd = await list('campaign=odd&limit=1');
  expect(idsOf(await list(`campaign=odd&limit=5&cursor=${odd.body.next}`))).toEqual(['chat-3', 'chat-5']);

  expect((await list('', strangerHeaders)).body).toEqual({ items: [] });
  for (const [query, key] of [
    [`cursor=${first.body.next}`, strangerHeaders],
    [`campaign=even&cursor=${odd.body.next}`, reader],
    [`cursor=${odd.body.next}`, reader],
    ['cursor=chat-2', reader],
  ] as const) {
    const { status, body } = await list(query, key);
    expect([status, body.error.code, body.error.details[0].path]).toEqual([400, '400-01', 'cursor']);
  }
  for (const [query, path] of [
    ['platform=FAX', 'platform'],
    ['updatedSince=yesterday', 'updatedSince'],
    ['limit=0', 'limit'],
    ['email=x', 'query'],
    ['campaign=a&campaign=b', 'campaign'],
  ]) {
    const { status, body } = await list(query!);
    expect([status, body.error.code, body.error.details[0].path]).toEqual([400, '400-01', path]);
  }
});

test('a page of a filtered list searches a limited number of agents, and the next page continues', async () => {
  const reader = await keyOf('tenant-many', ['records:read']);
  await pool.query(
    `insert into agents (tenant_id, external_agent_id, email_address, generation, "offset", read_generation,
                         read_partition, read_offset, updated_at)
     select 'tenant-many', 'agent-' || lpad(i::text, 6, '0'), 'a' || i || '@example.org', 1, i, 1, 0, i, $2
       from generate_series(1, $1::int) as i`,
    [ROWS_SEARCHED_MAX + 1, new Date(bench.clock.nowMs())],
  );
  const list = async (query: string) =>
    (await call('GET', `/admin/v1/agents?emailAddress=${query}`, undefined, reader)).body;
  const sought = `a${ROWS_SEARCHED_MAX + 1}@example.org`;
  const { next, ...none } = await list(sought);
  expect(none).toEqual({ items: [] });
  const found = await list(`${sought}&cursor=${next}`);
  expect(found).toEqual({ items: [expect.objectContaining({ emailAddress: sought })] });
  // A page that is full ends where it is full.
  const full = await list('a1@example.org&limit=1');
  expect(full.items).toHaveLength(1);
  expect(await list(`a1@example.org&limit=1&cursor=${full.next}`)).toEqual({ items: [] });
});

test('a page of large rows ends early, and the next page continues', async () => {
  const reader = await keyOf('tenant-large', ['records:read']);
  const rowBytes = 100_000;
  const rows = 1 + Math.ceil(PAGE_BYTES_MAX / rowBytes);
  await pool.query(
    `insert into conversations (tenant_id, external_conversation_id, attributes, generation, "offset", read_generation,
                                read_partition, read_offset, updated_at)
     select 'tenant-large', 'chat-' || (100 + i), json_build_array(repeat('x', $2::int)), 1, i, 1, 0, i, $3
       from generate_series(1, $1::int) as i`,
    [rows, rowBytes, new Date(bench.clock.nowMs())],
  );
  const list = async (query: string) =>
    (await call('GET', `/admin/v1/conversations?limit=1000&${query}`, undefined, reader)).body;
  const first = await list('');
  expect(first.items).toHaveLength(rows - 1);
  expect(await list(`cursor=${first.next}`)).toEqual({ items: [expect.anything()] });
});

test('a report counts the messages of the tenant', async () => {
  const worker = await createWorkerBench(pool, messageSent, 'reported.');
  const keys = await keyOf(worker.tenantId, ['analytics:read']);
  const occurredAt = '2026-06-10T10:14:59.999Z';
  worker.append({ messageId: 'm', augmentationType: ['AUTOSUGGEST', 'FREEHAND'], dwellTime: 4, occurredAt });
  const { consumer, close } = worker.startWorker();
  await consumer.read(0);
  await close();
  const path =
    '/admin/v1/analytics/message-sent?from=2026-06-10T10:00:00Z&to=2026-06-11&groupBy=augmentationType';
  const { status, body } = await call('GET', path, undefined, keys);
  expect(status).toBe(200);
  const dwellTime = { messages: 1, mean: 4, p50: expect.closeTo(4, 0), p95: expect.closeTo(4, 0) };
  expect(body).toMatchObject({
    interval: 'total',
    timezone: 'UTC',
    groupBy: 'augmentationType',
    intervals: [
      {
        from: '2026-06-10T10:00:00Z',
        to: '2026-06-11T00:00:00Z',
        deadLetters: 0,
        conflicts: 0,
        all: { messages: 1, uses: 2, suggestionsUsed: 1, rates: { suggestionsUsed: 1 }, dwellTime },
        groups: [
          { group: 'AUTOSUGGEST', messages: 1, uses: 1, dwellTime },
          { group: 'FREEHAND', messages: 1, uses: 1, dwellTime },
        ],
      },
    ],
  });
  expect((await call('GET', path, undefined, strangerHeaders)).body.intervals[0].all.messages).toBe(0);
  expect(codeOf(await call('GET', path))).toEqual([403, '403-01']);
  const refusal = await call('GET', `${path}&interval=week`, undefined, keys);
  expect(codeOf(refusal)).toEqual([422, '422-01']);
  expect(refusal.body.error.details).toEqual([
    { path: 'interval', message: 'must be one of total, day, hour' },
  ]);
  expect(codeOf(await call('GET', `${path}&from=2026-06-10`, undefined, keys))).toEqual([400, '400-01']);
});

test('a report counts what is wrong with the records of the tenant', async () => {
  const worker = await createWorkerBench(pool, messageSent, 'quality.');
  const keys = await keyOf(worker.tenantId, ['analytics:read']);
  worker.append({ messageId: 'm', augmentationType: ['AUTOSUGGEST'], conversationId: 'C' });
  worker.append({ messageId: 'n', augmentationType: [], numEdits: 'many' });
  const { consumer, close } = worker.startWorker();
  await consumer.read(0);
  await close();
  const path = '/admin/v1/analytics/data-quality?from=2026-06-10&to=2026-06-12';
  const { status, body } = await call('GET', `${path}&interval=day`, undefined, keys);
  expect(status).toBe(200);
  const nothing = { unknownMembers: [], rejected: [], duplicates: [], conflicts: [] };
  const members = ['initialSuggestionsId', 'selectedSuggestionIndex'].map((name) => ({ name, records: 1 }));
  expect(body).toEqual({
    from: '2026-06-10',
    to: '2026-06-12',
    interval: 'day',
    intervals: [
      {
        from: '2026-06-10',
        to: '2026-06-11',
        ...nothing,
        gaps: [{ kind: 'message-sent', records: 1, members }],
        deadLetters: [{ kind: 'message-sent', reason: 'invalid', records: 1 }],
      },
      { from: '2026-06-11', to: '2026-06-12', ...nothing, gaps: [], deadLetters: [] },
    ],
  });
  expect((await call('GET', path, undefined, strangerHeaders)).body.intervals).toEqual([
    { from: '2026-06-10', to: '2026-06-12', ...nothing, gaps: [], deadLetters: [] },
  ]);
  expect(codeOf(await call('GET', path))).toEqual([403, '403-01']);
  const reversed = await call('GET', path.replace('06-12', '06-01'), undefined, keys);
  expect(codeOf(reversed)).toEqual([422, '422-01']);
  expect(reversed.body.error.details).toEqual([{ path: 'to', message: 'must be after from' }]);
  expect(codeOf(await call('GET', `${path}&kind=agents`, undefined, keys))).toEqual([400, '400-01']);
});
