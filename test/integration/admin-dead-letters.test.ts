import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { writeCursor } from '../../admin/request/cursor.ts';
import { requestReplays } from '../../admin/sql/dead-letters.ts';
import { type Admin, startAdmin } from '../../admin/start.ts';
import { RequestedReplays } from '../../gateway/replays/requested-replays.ts';
import type { OutgoingRecord, Publisher, PublishOutcome } from '../../shared/log/log.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import { dropDeadLetters, readDeadLetters, STATES } from '../../shared/postgres/dead-letter-lists.ts';
import type { DeadLetter } from '../../shared/postgres/dead-letters.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { addDeadLetter } from '../support/dead-letters.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { createWebhookBench } from '../support/webhooks.ts';

const { pool } = await createTestDatabase();
const bench = createWebhookBench(pool);
const PATH = '/admin/v1/dead-letters';
const MINUTE_MS = 60_000;
const NOW_MS = Date.parse('2026-06-10T12:00:00Z');
const clock = { ms: NOW_MS, nowMs: () => clock.ms };
const lines: string[] = [];
type Headers = Record<string, string>;
let admin: Admin;
let owner: Headers;
let reader: Headers;
let stranger: Headers;

beforeAll(async () => {
  admin = await startAdmin({
    pool,
    keyRing: bench.keyRing,
    clock,
    nextId: bench.nextId,
    logger: pino({ level: 'trace' }, { write: (line: string) => lines.push(line) }),
    allow: [],
    topicPrefix: 'sluice.',
    endpointsMax: 20,
    host: '127.0.0.1',
    port: 0,
    drainDelayMs: 0,
    requestsPerSecond: 1000,
  });
  await bench.tenant('tenant-a');
  await bench.tenant('tenant-b');
  owner = await keyOf('tenant-a', ['dead-letters:read', 'dead-letters:write']);
  reader = await keyOf('tenant-a', ['dead-letters:read']);
  stranger = await keyOf('tenant-b', ['*']);
});

beforeEach(async () => {
  clock.ms = NOW_MS;
  await pool.query('delete from dead_letters');
});

afterAll(() => admin.stop());

async function keyOf(tenantId: string, scopes: string[]): Promise<Headers> {
  const apiKeyId = bench.nextId();
  const key = { apiKeyId, tenantId, scopes, rate: undefined, createdAtMs: NOW_MS };
  return { 'service-api-id': apiKeyId, 'service-api-secret': await createApiKey(pool, key) };
}

async function call(
  method: string,
  path: string,
  { body, as = owner }: { body?: object; as?: Headers } = {},
) {
  const response = await fetch(`http://127.0.0.1:${admin.port}${path}`, {
    method,
    headers: { ...as, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, text, body: JSON.parse(text) };
}

/** Adds a dead letter of `tenant-a` and returns its id. */
async function add(offset: number, more: Partial<DeadLetter> = {}, kind = 'agent-metadata'): Promise<string> {
  await addDeadLetter(pool, `1/sluice.${kind}/3/${offset}`, {
    tenantId: 'tenant-a',
    recordId: `event-${offset}`,
    reason: 'refused',
    stage: 'store',
    value: Buffer.from(`{"id":"event-${offset}","data":{"number":90071992547409931}}`),
    failedAtMs: NOW_MS - offset * MINUTE_MS,
    expiresAtMs: NOW_MS + MINUTE_MS,
    ...more,
  });
  return `1.${kind}.3.${offset}`;
}

const idsOf = ({ body }: Awaited<ReturnType<typeof call>>) =>
  body.items.map(({ deadLetterId }: { deadLetterId: string }) => deadLetterId);
const detailsOf = ({ status, body }: Awaited<ReturnType<typeof call>>) => [status, body.error.details];

async function stateOf(offset: number) {
  const { rows } = await pool.query(
    `select state, replay, state = 'replaying' and replay_requested_at = state_at as requested from dead_letters where "offset" = $1`,
    [offset],
  );
  return rows[0];
}

test('dead letters are listed newest first, in pages, by kind, reason, time and state', async () => {
  const ids = [];
  for (let offset = 1; offset <= 7; offset++) ids.push(await add(offset));
  // Of the same time: then in the order of their positions.
  for (const offset of [10, 11, 12]) ids.push(await add(offset, { failedAtMs: NOW_MS - 8 * MINUTE_MS }));
  await add(20, { tenantId: 'tenant-b' });
  await add(21, { tenantId: '' });
  const conflict = await add(30, { reason: 'conflict' }, 'message-sent');
  expect(idsOf(await call('GET', PATH))).toEqual([...ids, conflict]);
  expect(idsOf(await call('GET', PATH, { as: stranger }))).toEqual(['1.agent-metadata.3.20']);

  const paged = [];
  for (let next = ''; ; ) {
    const page = await call('GET', `${PATH}?kind=agent-metadata&limit=3${next}`);
    expect(page.body.items.length).toBeLessThanOrEqual(3);
    paged.push(...idsOf(page));
    if (page.body.next === undefined) break;
    next = `&cursor=${page.body.next}`;
    expect((await call('GET', `${PATH}?kind=message-sent&limit=3${next}`)).status).toBe(400);
    expect((await call('GET', `${PATH}?kind=agent-metadata${next}`, { as: stranger })).status).toBe(400);
  }
  expect(paged).toEqual(ids);

  const at = (minutes: number) => new Date(NOW_MS - minutes * MINUTE_MS).toISOString();
  expect(idsOf(await call('GET', `${PATH}?reason=conflict`))).toEqual([conflict]);
  expect(idsOf(await call('GET', `${PATH}?from=${at(3)}`))).toEqual(ids.slice(0, 3));
  expect(idsOf(await call('GET', `${PATH}?from=${at(4)}&to=${at(2)}`))).toEqual(ids.slice(2, 4));
  expect((await call('POST', `${PATH}/${ids[0]}/drop`)).status).toBe(200);
  expect(idsOf(await call('GET', `${PATH}?state=dropped`))).toEqual([ids[0]]);
  expect(idsOf(await call('GET', `${PATH}?to=${at(0)}`))).toEqual([...ids.slice(1), conflict]);

  const { items } = (await call('GET', `${PATH}?state=dropped`)).body;
  expect(items).toEqual([
    {
      deadLetterId: ids[0],
      kind: 'agent-metadata',
      recordId: 'event-1',
      reason: 'refused',
      stage: 'store',
      problem: 'in words',
      failedAt: at(1),
      expiresAt: new Date(NOW_MS + MINUTE_MS).toISOString(),
      state: 'dropped',
      settledAt: at(0),
      replays: 0,
      replayable: false,
    },
  ]);
});

test('a dead letter is shown with its value byte for byte, but never that of credentials', async () => {
  const known = await add(1);
  const shown = await call('GET', `${PATH}/${known}`, { as: reader });
  expect(shown.status).toBe(200);
  expect(shown.text).toContain('"value":{"id":"event-1","data":{"number":90071992547409931}}');
  const raw = await add(2, { value: Buffer.from([0xff, 0x00]) });
  expect((await call('GET', `${PATH}/${raw}`)).body).toMatchObject({ value: null, valueBase64: '/wA=' });
  const erased = await add(3, { value: null });
  expect((await call('GET', `${PATH}/${erased}`)).body).toMatchObject({ value: null, replayable: false });

  const planted = 'a-credential-in-the-value';
  for (const value of [`{"data":{"token":"${planted}"}}`, planted]) {
    const secret = await add(4, { value: Buffer.from(value) }, 'credentials');
    const { text, body } = await call('GET', `${PATH}/${secret}`);
    expect(body).toMatchObject({ kind: 'credentials', value: null });
    expect(text).not.toContain(planted);
    expect(text).not.toContain(Buffer.from(planted).toString('base64'));
    await pool.query('delete from dead_letters where "offset" = 4');
  }
  expect(lines.join('')).not.toContain(planted);
});

test('a dead letter of another tenant does not exist', async () => {
  const id = await add(1);
  const nobodys = await add(2, { tenantId: '' });
  for (const path of [
    id,
    nobodys,
    '1.agent-metadata.3.99',
    '1.agents.3.1',
    'x',
    '1/sluice.agent-metadata/3/1',
  ]) {
    const at = `${PATH}/${encodeURIComponent(path)}`;
    expect([path, (await call('GET', at, { as: stranger })).status]).toEqual([path, 404]);
    expect([path, (await call('POST', `${at}/replay`, { as: stranger })).status]).toEqual([path, 404]);
    expect([path, (await call('POST', `${at}/drop`, { as: stranger })).status]).toEqual([path, 404]);
  }
  const body = { reason: 'refused' };
  expect((await call('POST', `${PATH}/replay`, { body, as: stranger })).body).toMatchObject({ replaying: 0 });
  expect((await call('POST', `${PATH}/drop`, { body, as: stranger })).body).toMatchObject({ dropped: 0 });
  expect(await stateOf(1)).toMatchObject({ state: 'open', replay: 0 });
  expect((await call('GET', `${PATH}/%zz`)).status).toBe(400);
});

test('a dead letter is replayed once: a second request and a drop are 409 until it has failed, or 10 minutes are over', async () => {
  const path = `${PATH}/${await add(1)}`;
  const answers = await Promise.all([1, 2, 3].map(() => call('POST', `${path}/replay`)));
  expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409]);
  expect(answers.find(({ status }) => status === 202)!.body).toMatchObject({
    state: 'replaying',
    replays: 1,
  });
  expect(await stateOf(1)).toEqual({ state: 'replaying', replay: 1, requested: true });
  clock.ms += 10 * MINUTE_MS;
  for (const verb of ['replay', 'drop']) {
    const message = expect.stringMatching(
      /^the dead letter is being replayed since 2026-06-10T12:00:00.000Z/,
    );
    expect(detailsOf(await call('POST', `${path}/${verb}`))).toEqual([
      409,
      [{ path: 'deadLetterId', message }],
    ]);
  }
  clock.ms += 1;
  expect((await call('POST', `${path}/replay`)).body).toMatchObject({ state: 'replaying', replays: 2 });
  // A worker rejects the replay.
  await add(1, { replay: 2, failedAtMs: clock.ms, reason: 'invalid' });
  expect(await stateOf(1)).toEqual({ state: 'open', replay: 2, requested: false });
  expect((await call('POST', `${path}/drop`)).body).toMatchObject({ state: 'dropped', reason: 'invalid' });
  for (const verb of ['replay', 'drop']) {
    const message = expect.stringMatching(/^the dead letter was dropped at \S+ and has not failed since$/);
    expect(detailsOf(await call('POST', `${path}/${verb}`))).toEqual([
      409,
      [{ path: 'deadLetterId', message }],
    ]);
  }
});

test('a dead letter that cannot be changed now is 409', async () => {
  const erased = `${PATH}/${await add(1, { value: null })}`;
  const erasedMessage = 'the value of the dead letter was erased, so it cannot be replayed';
  expect(detailsOf(await call('POST', `${erased}/replay`))).toEqual([
    409,
    [{ path: 'deadLetterId', message: erasedMessage }],
  ]);
  expect((await call('POST', `${erased}/drop`)).status).toBe(200);
  const locked = `${PATH}/${await add(2)}`;
  const other = await pool.connect();
  await other.query('begin; select 1 from dead_letters where "offset" = 2 for update');
  const answer = await call('POST', `${locked}/replay`);
  await other.query('rollback');
  other.release();
  expect(detailsOf(answer)).toEqual([
    409,
    [{ path: 'deadLetterId', message: expect.stringContaining('read it, and try again') }],
  ]);
  expect((await call('POST', `${locked}/replay`)).status).toBe(202);
});

test('filters replay and drop a bounded number per request, and concurrent requests take different ones', async () => {
  for (let offset = 1; offset <= 20; offset++) await add(offset);
  await add(30, { reason: 'conflict' });
  await add(31, { value: null });
  await add(32, {}, 'message-sent');
  const replay = (body: object) => call('POST', `${PATH}/replay`, { body });
  const answers = await Promise.all(
    Array.from({ length: 4 }, () => replay({ kind: 'agent-metadata', limit: 5 })),
  );
  expect(answers.map(({ status }) => status)).toEqual([202, 202, 202, 202]);
  const replaying = answers.reduce((sum, { body }) => sum + body.replaying, 0);
  let last = await replay({ kind: 'agent-metadata' });
  expect([replaying + last.body.replaying, last.body.more]).toEqual([20, false]);
  for (let offset = 1; offset <= 20; offset++) expect(await stateOf(offset)).toMatchObject({ replay: 1 });
  last = await replay({ kind: 'agent-metadata' });
  expect(last.body).toEqual({ replaying: 0, conflictsLeftOut: 1, more: false });
  expect((await replay({ kind: 'agent-metadata', reason: 'conflict', limit: 1 })).body).toEqual({
    replaying: 1,
    conflictsLeftOut: 0,
    more: true,
  });
  expect(await stateOf(32)).toMatchObject({ state: 'open' });
  const drop = (body: object) => call('POST', `${PATH}/drop`, { body });
  expect((await drop({ from: '2020-01-01T00:00:00Z' })).body).toEqual({ dropped: 2, more: false });
});

test.each([
  [{}, 'body'],
  [{ limit: 5 }, 'body'],
  [{ kind: null }, 'body'],
  [{ kind: 'agents' }, 'kind'],
  [{ reason: 'unknown' }, 'reason'],
  [{ kind: 'agent-metadata', reson: 'conflict' }, 'reson'],
  [{ reason: 'refused', limit: 1001 }, 'limit'],
  [{ from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' }, 'to'],
  [{ from: 'yesterday' }, 'from'],
])('a selection %j is 422-01 naming %s', async (body, path) => {
  for (const verb of ['replay', 'drop']) {
    const answer = await call('POST', `${PATH}/${verb}`, { body });
    expect([answer.status, answer.body.error.details[0].path]).toEqual([422, path]);
  }
});

test('scopes and parameters are checked', async () => {
  const id = await add(1);
  expect((await call('GET', PATH, { as: reader })).status).toBe(200);
  for (const path of [`${id}/replay`, `${id}/drop`, 'replay', 'drop']) {
    expect((await call('POST', `${PATH}/${path}`, { body: {}, as: reader })).status).toBe(403);
  }
  const writer = await keyOf('tenant-a', ['dead-letters:write']);
  expect((await call('GET', `${PATH}/${id}`, { as: writer })).status).toBe(403);
  for (const query of ['kind=agents', 'state=gone', 'from=now', 'limit=0', 'cursor=x', 'other=1']) {
    const name = query.split('=')[0];
    const answer = await call('GET', `${PATH}?${query}`);
    expect([answer.status, answer.body.error.details[0].path]).toEqual([
      400,
      name === 'other' ? 'query' : name,
    ]);
  }
  for (const place of ['x 0/t/0/0', '999999999999999 0/t/0/0']) {
    const cursor = writeCursor(['tenant-a', 'dead-letters'], place);
    expect((await call('GET', `${PATH}?cursor=${cursor}`)).status).toBe(400);
  }
  expect((await call('GET', `${PATH}?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z`)).status).toBe(422);
});

test('a gateway publishes requested replays, and ends each request once the log has the record', async () => {
  for (const offset of [1, 2, 3]) await add(offset, { key: Buffer.from('tenant-a:agent') });
  await add(4, { tenantId: 'tenant-b', key: Buffer.from('tenant-b:agent') });
  await add(5);
  const request = (as: Headers) => call('POST', `${PATH}/replay`, { body: { reason: 'refused' }, as });
  expect((await request(owner)).body).toMatchObject({ replaying: 4 });
  expect((await request(stranger)).body).toMatchObject({ replaying: 1 });
  const requested = async () => {
    const { rows } = await pool.query<{ offset: number }>(
      `select "offset"::int as offset from dead_letters where state = 'replaying' and replay_requested_at = state_at order by 1`,
    );
    return rows.map(({ offset }) => offset);
  };
  // The value of one is erased, and an earlier release drops another one.
  await pool.query('update dead_letters set value = null where "offset" = 2');
  await pool.query(`update dead_letters set state = 'dropped', state_at = $1 where "offset" = 5`, [
    new Date(NOW_MS + 1),
  ]);
  expect(await requested()).toEqual([1, 2, 3, 4]);

  const down = await publishOnce(() => ({ ok: false, reason: 'unavailable', outcomeUnknown: true }));
  // The failure of one tenant's part does not keep others from theirs.
  expect(down.map(({ length }) => length)).toEqual([2, 1]);
  expect(await requested()).toEqual([1, 3, 4]);
  expect(await stateOf(2)).toMatchObject({ state: 'open', replay: 1 });

  const calls = await publishOnce(({ headers }) =>
    firstPositionOf(headers) === '1/sluice.agent-metadata/3/3'
      ? { ok: false, reason: 'too-large', outcomeUnknown: false }
      : { ok: true, partition: 0, offset: 0n },
  );
  // Each tenant has calls of its own.
  expect(calls.map((records) => records.map(({ key }) => String(key)))).toEqual([
    ['tenant-a:agent', 'tenant-a:agent'],
    ['tenant-b:agent'],
  ]);
  expect(calls.map(([record]) => firstPositionOf(record!.headers))).toEqual([
    '1/sluice.agent-metadata/3/1',
    '1/sluice.agent-metadata/3/4',
  ]);
  expect(await requested()).toEqual([]);
  expect(await stateOf(1)).toMatchObject({ state: 'replaying', replay: 1 });
  expect(await stateOf(3)).toMatchObject({ state: 'open', replay: 1 });
  expect(await publishOnce(() => ({ ok: true, partition: 0, offset: 0n }))).toEqual([]);
});

test('one dead letter is found by its position in an index, however many there are', async () => {
  const firstPositions = [{ topic: 'sluice.agent-metadata', generation: 1, partition: 3, offset: 1n }];
  const filter = { tenantId: 'tenant-a', topics: ['sluice.agent-metadata'], states: STATES, firstPositions };
  const plans: string[] = [];
  const explained: Queryable = {
    async query(statement, values) {
      const { rows } = await pool.query(`explain ${statement}`, values);
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
      return { rows: [], rowCount: 0 };
    },
  };
  await readDeadLetters(explained, filter, 1);
  await dropDeadLetters(explained, filter, 1, NOW_MS);
  await requestReplays(explained, filter, 1, NOW_MS);
  // A subplan would be compared with every dead letter.
  for (const plan of plans) expect(plan).not.toMatch(/SubPlan/);
  expect(plans).toHaveLength(3);
});

/**
 * Runs a gateway's publisher of requested replays until it has nothing more to do, or has failed.
 * Resolves with the records of its calls.
 */
async function publishOnce(answer: (record: OutgoingRecord) => PublishOutcome): Promise<OutgoingRecord[][]> {
  const calls: OutgoingRecord[][] = [];
  const publish: Publisher['publish'] = async (_, records) => {
    calls.push([...records]);
    return records.map(answer);
  };
  const replays = new RequestedReplays({
    pool,
    publisher: { publish, close: async () => {} },
    layoutOf: () => ({ partitions: 12, tenantPartitions: 4 }),
    topicPrefix: 'sluice.',
    clock,
    logger: pino({ level: 'silent' }),
    intervalMs: 1_000_000,
  });
  await replays.run();
  await replays.close();
  return calls;
}

function firstPositionOf(headers: OutgoingRecord['headers']): string {
  const all = headers as readonly { readonly name: string; readonly value: Buffer }[];
  return String(all.find(({ name }) => name === 'sluice-origin')!.value);
}
