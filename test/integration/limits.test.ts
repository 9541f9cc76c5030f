import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeTenantUsage } from '../../gateway/sql/tenant-usage.ts';
import { type Gateway, startGateway } from '../../gateway/start.ts';
import { systemClock } from '../../shared/clock.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing } from '../../shared/keyring/keyring.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { dayOf } from '../../shared/postgres/times.ts';
import { startMaintenance } from '../../workers/maintenance.ts';
import { sweepTenantUsage } from '../../workers/sql/tenant-usage.ts';
import { runSluice } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type ProxiedPool, startProxiedPool } from '../support/proxied-pool.ts';
import { waitFor } from '../support/wait.ts';

const PREFIX = 'l.';
const STATE = '/automation-agent/v1/state?externalId=none';
const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const logger = pino({ level: 'silent' });
const nextId = createUlidGenerator(systemClock);

interface Key {
  readonly tenantId: string;
  readonly apiKeyId: string;
  readonly apiKeySecret: string;
}

let database: TestDatabase;
let log: EventLog;
let proxied: ProxiedPool;
let one: Gateway;
/** A gateway that connects to the database through a proxy, which the test can cut. */
let two: Gateway;

/** A clock fixed at noon, so that the day does not end during a test. */
const clock = { nowMs: () => noon };
const noon = Math.floor(Date.now() / 86_400_000) * 86_400_000 + 43_200_000;

async function sluice(args: string) {
  const { code, stdout, stderr } = await runSluice(`${args} --json`, { DATABASE_URL: database.url });
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return JSON.parse(stdout);
}

async function createKey(tenant: string, limits = '', keyLimits = ''): Promise<Key> {
  await sluice(`tenants create ${tenant} ${limits}`);
  return await sluice(`keys create --tenant ${tenant} --scope * ${keyLimits}`);
}

function start(pool: Pool): Promise<Gateway> {
  return startGateway({
    pool,
    log,
    keyRing: createKeyRing(`k:${Buffer.alloc(32).toString('base64')}`),
    clock,
    nextId,
    logger,
    topicPrefix: PREFIX,
    host: '127.0.0.1',
    port: 0,
    publishDeadlineMs: 5000,
    publishBufferBytesMax: 64 * 1024 * 1024,
    drainDelayMs: 0,
    gateways: 2,
  });
}

beforeAll(async () => {
  database = await createTestDatabase();
  log = createEmbeddedLog({ pool: database.pool, clock: systemClock, logger });
  const specs = topicSpecs(PREFIX, { partitions: 2, replicas: 1 });
  await log.createTopics(specs);
  await registerTopics(database.pool, specs, { tenantPartitions: 1, clock: systemClock });
  proxied = await startProxiedPool(database.url, { max: 10 });
  [one, two] = [await start(database.pool), await start(proxied.pool)];
  for (const { health } of [one, two]) {
    await waitFor(() => health.readyReasons().length === 0, { timeoutMs: 10_000, what: 'readiness' });
  }
});

afterAll(async () => {
  await one?.stop();
  await two?.stop();
  await log?.close();
  await proxied?.close();
});

async function request(gateway: Gateway, key: Key, path: string, items?: readonly object[]) {
  const response = await fetch(`http://127.0.0.1:${gateway.port}${path}`, {
    method: items ? 'POST' : 'GET',
    headers: {
      'service-api-id': key.apiKeyId,
      'service-api-secret': key.apiKeySecret,
      'content-type': 'application/json',
    },
    ...(items ? { body: JSON.stringify({ items }) } : {}),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

let agents = 0;
const sendAgents = (gateway: Gateway, key: Key, count: number) =>
  request(
    gateway,
    key,
    AGENTS,
    Array.from({ length: count }, () => ({ externalAgentId: `a-${++agents}` })),
  );

const countedOf = async (tenant: string) =>
  (await sluice('tenants list')).find(({ name }: { name: string }) => name === tenant).recordsToday;

const counted = (key: Key, records: number) =>
  waitFor(
    async () => {
      const { rows } = await database.pool.query(
        'select sum(records)::int as records from tenant_usage where tenant_id = $1 and day = $2::date',
        [key.tenantId, dayOf(noon)],
      );
      return rows[0].records === records;
    },
    { timeoutMs: 10_000, what: `${records} counted records` },
  );

describe('rates', () => {
  it('are those that the command set, divided between the gateways', async () => {
    const key = await createKey('rated', '--rate 500', '--rate 50');
    const { headers } = await request(one, key, STATE);
    expect(headers.get('ratelimit-policy')).toBe('"requests";q=500;w=2, "key-requests";q=50;w=2');
    const plain = await createKey('plain');
    const limits = (await sendAgents(one, plain, 1)).headers.get('ratelimit-policy');
    expect(limits).toBe(
      '"requests";q=1000;w=2, "bytes";q=20971520;w=2;qu="content-bytes", "records";q=20000;w=2;qu="records"',
    );
    const free = await createKey('free', '--rate none');
    expect((await sendAgents(one, free, 1)).headers.get('ratelimit-policy')).toBeNull();
  });

  it('of bytes count unpacked bodies, also refused ones, and answer 429-01 with Retry-After', async () => {
    const key = await createKey('heavy', '--bytes 1000000');
    const other = await createKey('beside-heavy');
    const body = gzipSync(JSON.stringify({ items: [], padding: 'x'.repeat(3 * 1024 * 1024) }));
    const sendHeavy = async () =>
      await fetch(`http://127.0.0.1:${one.port}${AGENTS}`, {
        method: 'POST',
        headers: {
          'service-api-id': key.apiKeyId,
          'service-api-secret': key.apiKeySecret,
          'content-type': 'application/json',
          'content-encoding': 'gzip',
        },
        body,
      });
    // One full request (4 MiB) is always within the burst.
    expect((await sendHeavy()).status).toBe(422);
    const refused = await sendHeavy();
    expect([refused.status, await refused.json()]).toMatchObject([429, { error: { code: '429-01' } }]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await sendAgents(one, other, 1)).status).toBe(200);
  });

  it('of bytes count a chunk as at least 1 KiB, and close a connection that sends more', async () => {
    const key = await createKey('chunks');
    const socket = connect(one.port, '127.0.0.1');
    let text = '';
    socket.on('data', (data) => {
      text += data;
    });
    socket.on('error', () => undefined);
    socket.write(
      `POST ${AGENTS} HTTP/1.1\r\nhost: h\r\nservice-api-id: ${key.apiKeyId}\r\nservice-api-secret: ${key.apiKeySecret}\r\n` +
        `content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
    // 100,000 bytes are within this gateway's 20 MiB share of the burst. Each 1-byte chunk counts
    // as 1 KiB, which makes 5 times that share.
    socket.write('1\r\n \r\n'.repeat(100_000));
    await waitFor(() => socket.closed, { timeoutMs: 20_000, what: 'the connection to be closed' });
    expect(text).toMatch(/^HTTP\/1\.1 429 [\s\S]*\r\nconnection: close\r\n[\s\S]*"429-01"/i);
    expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });

  it('apply within 5 s of a change', async () => {
    const key = await createKey('changed', '--rate 2');
    expect((await request(one, key, STATE)).headers.get('ratelimit')).toMatch(/^"requests";r=1;/);
    await sluice('tenants update changed --rate none');
    await waitFor(async () => (await request(one, key, STATE)).headers.get('ratelimit') === null, {
      timeoutMs: 5000,
      what: 'no limit',
    });
  });
});

describe('a daily quota', () => {
  it('is shared by all gateways, however the requests are distributed', async () => {
    const key = await createKey('shared', '--rate none --quota 100');
    for (const gateway of [one, two]) expect((await sendAgents(gateway, key, 40)).status).toBe(200);
    await counted(key, 80);
    // Each gateway reads the other's count at its next exchange.
    expect((await sendAgents(one, key, 5)).status).toBe(200);
    expect((await sendAgents(two, key, 5)).status).toBe(200);
    await counted(key, 90);
    for (const gateway of [one, two]) {
      await waitFor(async () => (await sendAgents(gateway, key, 100)).status === 429, {
        timeoutMs: 5000,
        what: 'the refusal',
      });
    }
    await waitFor(
      async () => (await sendAgents(one, key, 101)).headers.get('ratelimit') === '"quota";r=10;t=43200',
      { timeoutMs: 5000, what: 'the remaining records' },
    );
    const refused = await sendAgents(two, key, 100);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '43200']);
    await counted(key, 90);
  });

  it('is counted exactly for concurrent requests, and through a restart', async () => {
    const key = await createKey('exact', '--rate none --quota 900');
    const third = await start(database.pool);
    const answers = await Promise.all(Array.from({ length: 60 }, () => sendAgents(third, key, 10)));
    expect(answers.map(({ status }) => status)).toEqual(Array(60).fill(200));
    await third.stop();
    await counted(key, 600);
    const fourth = await start(database.pool);
    // The new gateway must read the previous counts first.
    await waitFor(
      async () => (await sendAgents(fourth, key, 901)).headers.get('ratelimit') === '"quota";r=300;t=43200',
      { timeoutMs: 5000, what: 'the remaining records' },
    );
    const all = await Promise.all(Array.from({ length: 60 }, () => sendAgents(fourth, key, 10)));
    expect(all.filter(({ status }) => status === 200)).toHaveLength(30);
    expect(all.filter(({ status }) => status === 429)).toHaveLength(30);
    await fourth.stop();
    await counted(key, 900);
  });

  it('uses the last counts while the database is down, and writes its own afterwards', async () => {
    const key = await createKey('cut', '--rate none --quota 100');
    expect((await sendAgents(two, key, 10)).status).toBe(200);
    await counted(key, 10);
    proxied.proxy.freeze();
    const began = performance.now();
    expect((await sendAgents(two, key, 80)).status).toBe(200);
    expect((await sendAgents(two, key, 11)).status).toBe(429);
    // Less than the time after which a connection would fail.
    expect(performance.now() - began).toBeLessThan(4000);
    proxied.proxy.thaw();
    await counted(key, 90);
  });
});

describe('quota counts', () => {
  it('only increase, however late and often they are written', async () => {
    const write = (records: number) =>
      writeTenantUsage(database.pool, 'gateway', [{ tenantId: 'T', day: '2026-01-01', records }], 5000);
    await write(7);
    await write(7);
    await write(3);
    const { rows } = await database.pool.query("select records from tenant_usage where tenant_id = 'T'");
    expect(rows).toEqual([{ records: 7n }]);
  });

  it('of past days are deleted by the workers after 35 days', async () => {
    const days = ['2026-05-05', '2026-05-06', '2026-06-10'];
    const store = days.map((day) => ({ tenantId: 'past', day, records: 1 }));
    await writeTenantUsage(database.pool, 'gateway', store, 5000);
    expect(await sweepTenantUsage(database.pool, '2026-01-01', 10)).toBe(0);
    const nowMs = Date.parse('2026-06-10T00:00:00Z');
    const maintenance = startMaintenance({
      pool: database.pool,
      clock: { nowMs: () => nowMs },
      logger,
      erasuresKeptMs: 0,
      expiredIdsKeptMs: 0,
    });
    await waitFor(
      async () => {
        const { rows } = await database.pool.query<{ day: string }>(
          "select day::text from tenant_usage where tenant_id = 'past' order by 1",
        );
        return rows.map(({ day }) => day).join() === '2026-05-06,2026-06-10';
      },
      { timeoutMs: 10_000, what: 'the deletion' },
    );
    await maintenance.close();
    expect(await countedOf('exact')).toBe(900);
  });
});
