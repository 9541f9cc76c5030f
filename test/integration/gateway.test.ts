import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Gateway, startGateway } from '../../gateway/start.ts';
import { systemClock } from '../../shared/clock.ts';
import { decodeEvent } from '../../shared/contracts/event.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing } from '../../shared/keyring/keyring.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import type { EventLog, LogRecord } from '../../shared/log/log.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { createTenant } from '../../shared/postgres/tenants.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type ProxiedPool, startProxiedPool } from '../support/proxied-pool.ts';
import { waitFor } from '../support/wait.ts';

const PREFIX = 'g.';
const CONVO = '/metadata-ingestion/v1/single-convo-metadata';
const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const STATE = '/automation-agent/v1/state';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const PUBLISH_DEADLINE_MS = 1000;

const logger = pino({ level: 'silent' });
const clock = systemClock;
const nextId = createUlidGenerator(clock);

let database: TestDatabase;
/** The pool for keys, states and stored ids. The log has a separate pool. */
let reads: ProxiedPool;
let appends: ProxiedPool;
let log: EventLog;
let gateway: Gateway;
let secret: string;

beforeAll(async () => {
  database = await createTestDatabase();
  reads = await startProxiedPool(database.url, { max: 10 });
  appends = await startProxiedPool(database.url, { max: 10 });
  await createTenant(database.pool, { tenantId: 'T', name: 'tenant', rate: 'none', createdAtMs: 0 });
  secret = await newKey('K');
  log = createEmbeddedLog({ pool: appends.pool, clock, logger });
  const specs = topicSpecs(PREFIX, { partitions: 4, replicas: 1 });
  await log.createTopics(specs);
  await registerTopics(database.pool, specs, { tenantPartitions: 2, clock });
  gateway = await startGateway({
    pool: reads.pool,
    log,
    keyRing: createKeyRing(`k:${Buffer.alloc(32).toString('base64')}`),
    clock,
    nextId,
    logger,
    topicPrefix: PREFIX,
    host: '127.0.0.1',
    port: 0,
    publishDeadlineMs: PUBLISH_DEADLINE_MS,
    publishBufferBytesMax: 64 * 1024 * 1024,
    drainDelayMs: 0,
    // The machine may be busy; unit tests cover the default.
    storedIdsBudgetMs: 500,
  });
  await ready(true);
});

afterAll(async () => {
  await gateway?.stop();
  await log?.close();
  await reads?.close();
  await appends?.close();
});

describe('a gateway on the embedded log and Postgres', () => {
  it('publishes a record to the log before it answers', async () => {
    const agents = Array.from({ length: 50 }, (_, i) => ({
      externalAgentId: `a-${i % 5}`,
      eventId: `e-${i}`,
      concurrency: i,
    }));
    const response = await post(AGENTS, { items: agents });
    expect(response.status).toBe(200);
    const records = (await readAll('agent-metadata')).map(({ value }) =>
      decodeEvent(value, 'agent-metadata'),
    );
    for (let agent = 0; agent < 5; agent++) {
      const order = records
        .filter(({ entity }) => entity === `a-${agent}`)
        .map(({ data }) => data.concurrency);
      expect(order).toEqual(Array.from({ length: 10 }, (_, i) => agent + 5 * i));
    }
  });

  it('deduplicates by stored ids when its memory is empty', async () => {
    await storeKey('stored-1', 'stored');
    await storeKey('dead-1', 'dead-lettered');
    await storeKey('over-1', 'stored', Date.now() - 1);
    const send = async (eventId: string) =>
      (await post(CONVO, { externalConversationId: 'c', eventId })).status;
    expect(await send('stored-1')).toBe(409);
    expect(await send('dead-1')).toBe(200);
    expect(await send('new-1')).toBe(200);
    // Ids stay in the table for some days after they expire.
    expect(await send('over-1')).toBe(200);
  });

  it('reads the state of a conversation only for its tenant', async () => {
    expect((await get(`${STATE}?externalId=x`)).status).toBe(404);
    await storeState('T', 'x', 'processing', '{"n": 12345678901234567890}');
    await storeState('other', 'y', 'ready', null);
    const response = await get(`${STATE}?externalId=x`);
    expect(await response.text()).toBe('{"state":"processing","inputVariables":{"n": 12345678901234567890}}');
    expect((await get(`${STATE}?externalId=y`)).status).toBe(404);
  });

  it('admits a new key immediately, and refuses a revoked one within 5 s', async () => {
    const newSecret = await newKey('K2');
    const credentials = { 'service-api-id': 'K2', 'service-api-secret': newSecret };
    const status = async () => (await get(`${STATE}?externalId=none`, credentials)).status;
    expect(await status()).toBe(404);
    await database.pool.query('update api_keys set revoked_at = $1 where api_key_id = $2', [
      new Date(),
      'K2',
    ]);
    await waitFor(async () => (await status()) === 401, { timeoutMs: 5000, what: 'the revocation' });
  });

  it('serves known keys while the database does not answer, without waiting for stored ids', async () => {
    await newKey('K3');
    reads.proxy.freeze();
    try {
      for (let i = 0; i < 8; i++) {
        const startedAtMs = performance.now();
        expect((await post(CONVO, { externalConversationId: 'c', eventId: `silent-${i}` })).status).toBe(200);
        // Half of the time after which a connection would fail.
        expect(performance.now() - startedAtMs).toBeLessThan(2500);
      }
      expect((await post(MESSAGE, { messageId: 'm', augmentationType: ['FREEHAND'] })).status).toBe(200);
      const unknown = await get(`${STATE}?externalId=x`, {
        'service-api-id': 'K3',
        'service-api-secret': 's',
      });
      expect(unknown.status).toBe(503);
      const state = await get(`${STATE}?externalId=x`);
      expect([state.status, state.headers.get('retry-after')]).toEqual([503, '1']);
      expect(await (await fetch(url('/health/ready'))).json()).toMatchObject({
        status: 'ok',
        notes: ['database'],
      });
    } finally {
      reads.proxy.thaw();
    }
    await waitFor(async () => (await get(`${STATE}?externalId=x`)).status === 200, {
      timeoutMs: 15_000,
      what: 'the database',
    });
  });

  it('answers 503-01 while the log is down, soon without waiting, and recovers without traffic', async () => {
    appends.proxy.freeze();
    try {
      expect((await post(CONVO, { externalConversationId: 'c', eventId: 'down' })).status).toBe(503);
      expect((await post(CONVO, { externalConversationId: 'd', eventId: 'down' })).status).toBe(503);
      await ready(false);
      // No request waits any more, whichever partition its record is in. The best of several
      // attempts counts, because a busy machine delays some of them.
      let tookMs = Number.POSITIVE_INFINITY;
      for (let attempt = 0; attempt < 3 && tookMs >= PUBLISH_DEADLINE_MS; attempt++) {
        const startedAtMs = performance.now();
        const refused = await Promise.all(
          Array.from({ length: 20 }, (_, i) =>
            post(CONVO, { externalConversationId: `c${i}`, eventId: `r${i}` }),
          ),
        );
        tookMs = performance.now() - startedAtMs;
        expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 503));
        expect(refused[0]!.headers.get('retry-after')).toBe('1');
      }
      expect(tookMs).toBeLessThan(PUBLISH_DEADLINE_MS);
    } finally {
      appends.proxy.thaw();
    }
    await ready(true);
    expect((await post(CONVO, { externalConversationId: 'other', eventId: 'r0' })).status).toBe(200);
    expect((await post(CONVO, { externalConversationId: 'c', eventId: 'down' })).status).toBe(200);
  });
});

function ready(expected: boolean): Promise<unknown> {
  return waitFor(async () => (await fetch(url('/health/ready'))).ok === expected, {
    timeoutMs: 20_000,
    what: `readiness to be ${expected}: ${gateway.health.readyReasons()}`,
  });
}

function url(path: string): string {
  return `http://127.0.0.1:${gateway.port}${path}`;
}

function get(path: string, credentials: Record<string, string> = {}): Promise<Response> {
  return fetch(url(path), {
    headers: { 'service-api-id': 'K', 'service-api-secret': secret, ...credentials },
  });
}

function post(path: string, body: unknown): Promise<Response> {
  return fetch(url(path), {
    method: 'POST',
    headers: { 'service-api-id': 'K', 'service-api-secret': secret, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

function newKey(apiKeyId: string): Promise<string> {
  return createApiKey(database.pool, {
    apiKeyId,
    tenantId: 'T',
    scopes: ['*'],
    rate: undefined,
    createdAtMs: 0,
  });
}

async function storeKey(
  key: string,
  status: 'stored' | 'dead-lettered',
  expiresAtMs = Date.now() + 60_000,
): Promise<void> {
  await database.pool.query(
    `insert into event_keys (tenant_id, kind, key, content_hash, status, generation, partition, "offset",
                             accepted_at, stored_at, updated_at, expires_at)
     values ('T', 'conversation-metadata', $1, '\\x00', $2, 1, 0, 0, $3, $3, $3, $4)`,
    [key, status, new Date(), new Date(expiresAtMs)],
  );
}

async function storeState(
  tenantId: string,
  externalConversationId: string,
  state: string,
  inputVariables: string | null,
): Promise<void> {
  await database.pool.query(
    `insert into conversation_states (tenant_id, external_conversation_id, conversation_id, state, input_variables,
                                      generation, "offset", read_generation, read_partition, read_offset, updated_at)
     values ($1, $2, 'C', $3, $4, 1, 0, 1, 0, 0, $5)`,
    [tenantId, externalConversationId, state, inputVariables, new Date()],
  );
}

/** Returns all records of a topic, by partition. */
async function readAll(kind: string): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  let read = 0;
  let end = 0n;
  const consumer = log.createConsumer({
    topic: `${PREFIX}${kind}`,
    group: `test-${nextId()}`,
    batchRecordsMax: 1000,
    startOffset: async (_partition, bounds) => {
      read++;
      end += bounds.latest - bounds.earliest;
      return bounds.earliest;
    },
    onBatch: async (batch) => {
      records.push(...batch.records);
    },
  });
  await waitFor(() => read === 4 && BigInt(records.length) === end, {
    timeoutMs: 10_000,
    what: 'the records',
  });
  await consumer.close();
  return records;
}
