import { pino } from 'pino';
import { beforeAll, describe, expect, it } from 'vitest';
import { findCredentials } from '../../admin/sql/credentials.ts';
import { reencryptCredentials } from '../../cli/sql/encrypted-values.ts';
import { describeTenants, setTenantDisabled, setTenantRate } from '../../cli/sql/tenants.ts';
import { listAttempts } from '../../cli/sql/webhooks.ts';
import { readConversationState } from '../../gateway/sql/conversation-states.ts';
import { findEventKeys } from '../../gateway/sql/event-keys.ts';
import { readUsageOfOthers, writeTenantUsage } from '../../gateway/sql/tenant-usage.ts';
import { RawJson } from '../../shared/contracts/json.ts';
import { KINDS } from '../../shared/contracts/kinds.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import type { LogRecord } from '../../shared/log/log.ts';
import { findApiKeys, findChangedApiKeys, recordKeyUses } from '../../shared/postgres/api-key-lookup.ts';
import { createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from '../../shared/postgres/api-keys.ts';
import { openClient } from '../../shared/postgres/client.ts';
import { findErasures } from '../../shared/postgres/credential-erasures.ts';
import { insertCredentialRead, listCredentialReads } from '../../shared/postgres/credential-reads.ts';
import { eraseCredentials } from '../../shared/postgres/credentials.ts';
import { findEvents } from '../../shared/postgres/event-keys.ts';
import { EXPORT_NAMES, EXPORTED_KINDS } from '../../shared/postgres/export-kinds.ts';
import { readExportPage } from '../../shared/postgres/export-page.ts';
import { readExportEnd } from '../../shared/postgres/export-positions.ts';
import { createPool, inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { readServerFacts } from '../../shared/postgres/server-facts.ts';
import { createTenant } from '../../shared/postgres/tenants.ts';
import { earlierNow } from '../../shared/postgres/times.ts';
import { findEndpoints } from '../../shared/postgres/webhook-endpoints.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { automationEvents } from '../../workers/kinds/automation-events.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import { createCredentialsKind } from '../../workers/kinds/credentials.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import type { RecordKind } from '../../workers/kinds/record-kind.ts';
import { sweepErasures } from '../../workers/sql/credential-erasures.ts';
import { eraseExpiredCredentials } from '../../workers/sql/credentials.ts';
import { sweepEventKeys } from '../../workers/sql/event-keys.ts';
import { sweepTenantUsage } from '../../workers/sql/tenant-usage.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';
import { startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench, reply } from '../support/webhooks.ts';
import { createWorkerBench } from '../support/worker-bench.ts';

const logger = pino({ level: 'silent' });
const HOUR_MS = 3_600_000;
const DEADLINE_MS = 10_000;
/** Deadline for a worker's batch, which takes milliseconds if the settings have no effect. */
const STORED_TIMEOUT_MS = 15_000;

type Settings = Readonly<Record<string, string>>;

/**
 * Settings that change the meaning of results or parameters, or the behavior of transactions. Each
 * is tested alone.
 */
const ALONE: readonly Settings[] = [
  { DateStyle: 'German, DMY' },
  { DateStyle: 'SQL, MDY' },
  { DateStyle: 'Postgres, DMY' },
  { TimeZone: 'Asia/Kathmandu' },
  { array_nulls: 'off' },
  { bytea_output: 'escape' },
  { standard_conforming_strings: 'off' },
  { default_transaction_isolation: 'serializable' },
  { default_transaction_isolation: 'repeatable read' },
  { lock_timeout: '10ms' },
];

/**
 * Settings that should change nothing. Together with the settings above they are tested once on the
 * database and once on the role.
 */
const TOGETHER: Settings = {
  ...Object.assign({}, ...ALONE),
  DateStyle: 'German, DMY',
  IntervalStyle: 'sql_standard',
  timezone_abbreviations: 'India',
  extra_float_digits: '-15',
  backslash_quote: 'off',
  default_transaction_isolation: 'serializable',
  default_transaction_deferrable: 'on',
  statement_timeout: '60s',
  idle_in_transaction_session_timeout: '1ms',
  synchronous_commit: 'off',
  row_security: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'on',
  transform_null_equals: 'on',
  xmloption: 'document',
  client_min_messages: 'error',
  check_function_bodies: 'off',
  quote_all_identifiers: 'on',
  enable_partition_pruning: 'off',
  client_encoding: 'LATIN1',
};

describe('results with settings of the database, the role or the session', () => {
  let expected: unknown;
  beforeAll(async () => {
    expected = await resultsWith(async () => undefined);
  });

  it.each(ALONE)(
    'equal those of the defaults with %o on the database',
    { timeout: 120_000 },
    async (settings) => {
      const results = await resultsWith((database) => alter(database, 'database', settings));
      expect(results).toEqual(expected);
    },
  );

  it('equal those of the defaults with every setting on the database', { timeout: 120_000 }, async () => {
    expect(await resultsWith((database) => alter(database, 'database', TOGETHER))).toEqual(expected);
  });

  it('equal those of the defaults with every setting on the role', { timeout: 120_000 }, async () => {
    expect(await resultsWith((database) => alter(database, 'role', TOGETHER))).toEqual(expected);
  });

  it('equal those of the defaults in sessions of a pooler', { timeout: 120_000 }, async () => {
    const { client_encoding: _, ...settings } = TOGETHER;
    const statements = Object.entries(settings).map(([name, value]) => `set ${name} = ${literal(value)}`);
    const results = await resultsWith(async () => undefined, statements.join('; '));
    expect(results).toEqual(expected);
  });
});

describe('a writing statement', () => {
  it('is committed durably if synchronous_commit is off', async () => {
    const { database, pool } = await databaseWith((made) =>
      alter(made, 'database', { synchronous_commit: 'off' }),
    );
    const show = `current_setting('synchronous_commit') as mode`;
    expect((await pool.query(`select ${show}`)).rows).toEqual([{ mode: 'off' }]);
    await inTransaction(pool, async (client) => {
      expect((await client.query(`select ${show}`)).rows).toEqual([{ mode: 'on' }]);
    });
    const written = await pool.query(
      `insert into tenants (tenant_id, name, created_at) values ('t', 't', $1) returning ${show}`,
      [new Date(0)],
    );
    expect(written.rows).toEqual([{ mode: 'on' }]);
    await pool.query(`create table modes (mode text);
      create function note() returns trigger language plpgsql as $$
      begin insert into modes select ${show}; return new; end $$;
      create trigger note after insert on log_records for each row execute function note()`);
    const log = createEmbeddedLog({ pool, clock: { nowMs: Date.now }, logger });
    await log.createTopics([{ topic: 'durable', partitions: 1, replicas: 1, retentionMs: HOUR_MS }]);
    const publisher = log.createPublisher({ deadlineMs: 5000, bufferedBytesMax: 1e6 });
    await publisher.publish('durable', [{ partition: 0, key: 'k', value: Buffer.from('v') }]);
    await publisher.close();
    expect((await pool.query('select * from modes')).rows).toEqual([{ mode: 'on' }]);
    await log.close();
    await pool.end();
    await database.drop();
  });

  it('keeps a synchronous_commit that waits for standbys, or for the local disk only', async () => {
    for (const mode of ['local', 'remote_write', 'remote_apply']) {
      const { database, pool } = await databaseWith((made) =>
        alter(made, 'database', { synchronous_commit: mode }),
      );
      const { rows } = await inTransaction(pool, (client) => client.query('show synchronous_commit'));
      expect(rows).toEqual([{ synchronous_commit: mode }]);
      await pool.end();
      await database.drop();
    }
  });

  it('waits for a lock and then sees the committed rows, whatever the default isolation', async () => {
    const { database, pool } = await databaseWith((made) =>
      alter(made, 'database', { default_transaction_isolation: 'serializable' }),
    );
    await createTenant(pool, { tenantId: 't', name: 't', rate: 1, createdAtMs: 0 });
    let waiting: Promise<void> | undefined;
    await inTransaction(pool, async (client) => {
      await setTenantRate(client, 't', 2);
      waiting = setTenantRate(pool, 't', 3);
      waiting.catch(() => undefined);
      await waitFor(async () => (await database.countLockWaits()) > 0, {
        timeoutMs: DEADLINE_MS,
        what: 'a statement that waits',
      });
    });
    await waiting;
    expect((await describeTenants(pool, 0)).map(({ rate }) => rate)).toEqual([3]);
    await pool.end();
    await database.drop();
  });
});

async function databaseWith(prepare: (database: TestDatabase) => Promise<void>) {
  const database = await copyTemplate();
  await prepare(database);
  // A new pool: sessions opened earlier keep the previous settings.
  const pool = createPool({ connectionString: database.url, max: 10, applicationName: 'settings', logger });
  return { database, pool };
}

async function alter(database: TestDatabase, of: 'database' | 'role', settings: Settings): Promise<void> {
  const client = await openClient({ connectionString: database.url, applicationName: 'settings-test' });
  const name = new URL(database.url).pathname.slice(1);
  const target = of === 'database' ? `database ${name}` : `role current_user in database ${name}`;
  for (const [setting, value] of Object.entries(settings)) {
    await client.query(`alter ${target} set ${setting} = ${literal(value)}`);
  }
  await client.end();
}

/** Returns the setting's value as SQL. DateStyle is a list of names. */
function literal(value: string): string {
  return value
    .split(', ')
    .map((part) => `'${part}'`)
    .join(', ');
}

/** Returns the results of everything that the product stores and reads, on a separate database. */
async function resultsWith(
  prepare: (database: TestDatabase) => Promise<void>,
  sessionStatement?: string,
): Promise<unknown> {
  const { database, pool } = await databaseWith(prepare);
  if (sessionStatement !== undefined) {
    pool.on('connect', (client) => client.query(sessionStatement).catch(() => undefined));
  }
  try {
    return {
      kinds: await storeKinds(pool),
      keys: await useKeys(pool),
      credentials: await useCredentials(pool),
      webhooks: await useWebhooks(pool),
      log: await useEmbeddedLog(pool),
      clock: Math.abs((await earlierNow(pool, { nowMs: Date.now })) - Date.now()) < 60_000,
      serverClock: Math.abs((await readServerFacts(pool)).nowMs - Date.now()) < 60_000,
      tables: await dump(database),
    };
  } finally {
    await pool.end();
    await database.drop();
  }
}

async function within<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${ms} ms`)), ms);
  });
  return await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

async function storeKinds(pool: Pool): Promise<unknown> {
  const results: unknown[] = [];
  const store = async <Row>(
    kind: RecordKind<Row>,
    append: (bench: Awaited<ReturnType<typeof createWorkerBench<Row>>>) => void,
  ) => {
    const bench = await createWorkerBench(pool, kind, `${kind.kind}.`);
    append(bench);
    const { worker, consumer, close } = bench.startWorker();
    const reading = consumer.read(0);
    reading.catch(() => undefined);
    try {
      await within(reading, STORED_TIMEOUT_MS, kind.kind);
    } catch (error) {
      throw new Error(`not stored: ${worker.status().reasons.join('; ')}`, { cause: error });
    }
    const letters = (await bench.deadLetters()).map((letter) => letter.value!.toString());
    const { tenantId } = bench;
    const nowMs = bench.clock.ms;
    const exported = EXPORT_NAMES.map((name) => EXPORTED_KINDS[name]).find((one) => one.kind === kind.kind)!;
    const end = await readExportEnd(pool, bench.topic);
    results.push({
      letters,
      exported: await readExportPage(pool, exported, { tenantId, from: new Map(), end, limit: 10 }),
      events: await findEvents(pool, tenantId, 'same', KINDS),
      ids: await findEventKeys(pool, tenantId, kind.kind, ['same'], { nowMs, deadlineMs: DEADLINE_MS }),
      expired: await sweepEventKeys(pool, nowMs, 10),
    });
    await close();
  };
  await store(agentMetadata, (bench) => {
    const agent = { externalAgentId: 'é', startTs: '2026-03-04T05:06:07.123456789+02:00', lobId: 'NULL' };
    bench.append(
      { ...agent, languages: ['NULL', 'de', ''], attributes: [{ name: 'n', value: '\\' }] },
      { entity: 'é' },
    );
    bench.append({ externalAgentId: 'é', languages: null, startTs: null }, { entity: 'é', id: 'same' });
    bench.append({ externalAgentId: 'é', ranking: 1 }, { entity: 'é', id: 'same' });
    bench.append({ externalAgentId: 'b', lobId: 5 }, { entity: 'b' });
  });
  await store(conversationMetadata, (bench) => {
    bench.append({ externalConversationId: 'c', lobName: '😀 "NULL"' }, { entity: 'c', id: 'same' });
  });
  await store(messageSent, (bench) => {
    const times = { timeToAction: 0.1 + 0.2, craftingTime: 1e300, dwellTime: 5e-324 };
    bench.append({ messageId: 'same', augmentationType: ['AUTOSUGGEST'], ...times }, { id: 'same' });
  });
  await store(createCredentialsKind(24 * HOUR_MS), (bench) => {
    const data = { customerExternalId: 'customer', keyId: 'k', ciphertext: 'AAEC/w==' };
    const generated = { contentHash: undefined, idGenerated: true };
    bench.append(data, { entity: 'conv', id: 'same', ...generated });
    const acceptedAtMs = bench.clock.ms - 25 * HOUR_MS;
    bench.append(data, { entity: 'conv', id: 'old', acceptedAtMs, ...generated });
  });
  await store(automationEvents, (bench) => {
    const occurredAt = '2026-06-10T11:59:59.123456789Z';
    const event = { conversationId: 'C1', externalConversationId: 'x', occurredAt };
    const inputVariables = new RawJson('{ "n" : 1.0, "text":"\\u00fc 😀" }');
    bench.append({ ...event, type: 'processingStart', inputVariables }, { entity: 'x' });
    bench.append(
      { ...event, type: 'reply', reply: { messageId: 'M', text: 'é' } },
      { entity: 'x', id: 'same' },
    );
  });
  results.push(await readConversationState(pool, 'automation-events.tenant', 'x', DEADLINE_MS));
  return results;
}

async function useKeys(pool: Pool): Promise<unknown> {
  const createdAtMs = Date.UTC(2026, 5, 10, 1, 2, 3, 456);
  const nowMs = createdAtMs + 5000;
  await createTenant(pool, { tenantId: 'owner', name: 'é', rate: 5, quota: 7, createdAtMs });
  await createTenant(pool, { tenantId: 'other', name: 'other', rate: 'none', createdAtMs });
  const key = { tenantId: 'owner', scopes: ['a', 'NULL'], rate: undefined, createdAtMs };
  for (const apiKeyId of ['k1', 'k2', 'k3']) {
    const expiresAtMs = apiKeyId === 'k2' ? createdAtMs + HOUR_MS : null;
    await createApiKey(pool, { ...key, apiKeyId, expiresAtMs, name: 'é' });
  }
  const uses = [{ apiKeyId: 'k1', usedAtMs: nowMs }];
  await Promise.all([1, 2].map(() => recordKeyUses(pool, uses, 60_000, DEADLINE_MS)));
  const { secret: _, ...rotated } = {
    secret: undefined,
    ...(await rotateApiKey(pool, { apiKeyId: 'k2', nowMs, overlapMs: 2 * HOUR_MS })),
  };
  const rotating = await rotateApiKey(pool, { apiKeyId: 'k2', nowMs, overlapMs: 1 });
  const found = await findApiKeys(pool, ['k1', 'k2'], DEADLINE_MS);
  // The versions as another session sees them, with its own settings or the server's.
  const seen = found.map(({ apiKeyId, version }) => ({ apiKeyId, version }));
  const unchanged = await inTransaction(pool, async (client) => {
    await client.query(
      `set local datestyle = 'SQL'; set local timezone = 'Japan'; set local bytea_output = 'escape'`,
    );
    const asPool = client as unknown as Pool;
    return await findChangedApiKeys(asPool, seen, DEADLINE_MS);
  });
  const revoked = await revokeApiKey(pool, 'k1', nowMs);
  const changed = await findChangedApiKeys(pool, seen, DEADLINE_MS);
  await setTenantDisabled(pool, 'other', nowMs);
  const days = [{ tenantId: 'owner', day: '2026-06-09', records: 3 }];
  await writeTenantUsage(pool, 'gateway', days, DEADLINE_MS);
  await writeTenantUsage(pool, 'gateway', [{ ...days[0]!, day: '2026-06-10' }], DEADLINE_MS);
  const noSecret = ({ secretSha256, previousSecret, version: __, ...rest }: (typeof found)[number]) => ({
    ...rest,
    secretBytes: secretSha256.length,
    previous: previousSecret && { ...previousSecret, sha256: previousSecret.sha256.length },
  });
  return {
    found: found.map(noSecret).sort((a, b) => (a.apiKeyId < b.apiKeyId ? -1 : 1)),
    unchanged: unchanged.map(({ apiKeyId }) => apiKeyId),
    changed: changed.map(({ apiKeyId }) => apiKeyId),
    rotated,
    rotating,
    revoked,
    keys: await listApiKeys(pool, {}),
    tenants: await describeTenants(pool, nowMs),
    used: [...(await readUsageOfOthers(pool, 'me', ['owner'], '2026-06-10', DEADLINE_MS))],
    swept: await sweepTenantUsage(pool, '2026-06-10', 10),
  };
}

async function useCredentials(pool: Pool): Promise<unknown> {
  const nowMs = Date.parse('2026-06-10T12:00:00Z');
  const id = { tenantId: 'credentials.tenant', conversationId: 'conv' };
  const submission = await findCredentials(pool, id, nowMs, DEADLINE_MS);
  const place = await reencryptCredentials(pool, { keyId: 'new', after: undefined, rowsMax: 1 }, () => ({
    keyId: 'new',
    ciphertext: Buffer.from('again'),
  }));
  const end = await reencryptCredentials(pool, { keyId: 'new', after: place, rowsMax: 1 }, () => undefined);
  const read = { ...id, readId: 'r1', readAtMs: nowMs, apiKeyId: 'k1', requestId: 'q' };
  await insertCredentialRead(pool, { ...read, outcome: 'read', eventId: 'same' });
  await insertCredentialRead(pool, { ...read, readId: 'r0', outcome: 'missing', eventId: null });
  const erasure = { ...id, erasedAtMs: nowMs + 1, readId: 'r2', apiKeyId: 'k1', requestId: 'q' };
  const erased = await eraseCredentials(pool, erasure);
  const before = { readAtMs: nowMs, readId: 'r1' };
  return {
    submission,
    place,
    end,
    erased,
    erasures: await findErasures(pool, [id]),
    expired: await eraseExpiredCredentials(pool, nowMs + 48 * HOUR_MS, 10),
    reads: await listCredentialReads(pool, { tenantIds: [id.tenantId], limit: 10 }),
    page: await listCredentialReads(pool, { tenantIds: [id.tenantId], before, limit: 10 }),
    afterwards: await findCredentials(pool, id, nowMs, DEADLINE_MS),
    swept: await sweepErasures(pool, nowMs + 2, 10),
  };
}

async function useWebhooks(pool: Pool): Promise<unknown> {
  const bench = createWebhookBench(pool);
  const receiver = await startReceiver({ eventsOfTest: true });
  await bench.tenant('hooks');
  const startedMs = Date.now();
  const { endpointId } = await bench.endpoint('hooks', `${receiver.url}/`, ['automation.reply']);
  const failing = await bench.endpoint('hooks', `${receiver.url}/fails`, ['ingestion.record_rejected']);
  receiver.script(({ path }) => (path === '/fails' ? 503 : 200));
  const deliveries = await bench.emit(
    reply('hooks', 'C', 1),
    reply('hooks', null, 2),
    reply('hooks', 'C', 3),
    { ...reply('hooks', 'C', 4), type: 'ingestion.record_rejected' },
  );
  const dispatcher = bench.dispatcher({ deadlineMs: DEADLINE_MS, leaseMs: 2 * DEADLINE_MS });
  try {
    await waitFor(
      async () => (await bench.deliveries(endpointId)).every(({ state }) => state === 'delivered'),
      {
        timeoutMs: STORED_TIMEOUT_MS,
        what: 'deliveries',
      },
    );
    await waitFor(async () => (await bench.attempts(failing.endpointId)).length > 0, {
      timeoutMs: STORED_TIMEOUT_MS,
      what: 'a failed attempt',
    });
  } finally {
    await dispatcher.close();
    await receiver.close();
  }
  const isRecent = (ms: number | null) => ms !== null && ms >= startedMs && ms <= Date.now();
  const endpoints = await findEndpoints(pool, ['hooks']);
  const ids = { tenantId: 'hooks', endpointId };
  const attempts = await listAttempts(pool, ids, {
    sinceMs: startedMs,
    untilMs: Date.now() + 1000,
    limit: 10,
  });
  return {
    deliveries,
    received: receiver.requests.map(({ json }) => json.data.number).sort(),
    endpoints: endpoints.map(
      ({ eventTypes, state, failures, lastFailureAtMs, lastSuccessAtMs, ...rest }) => ({
        eventTypes,
        state,
        failures,
        lastFailureAt: lastFailureAtMs !== null && isRecent(lastFailureAtMs),
        lastSuccessAt: lastSuccessAtMs !== null && isRecent(lastSuccessAtMs),
        createdAt: isRecent(rest.createdAtMs),
        paused: rest.pausedUntilMs,
      }),
    ),
    attempts: attempts.map(({ createdAtMs, attempt, status, error, answer }) => ({
      created: isRecent(createdAtMs),
      attempt,
      status,
      error,
      answer,
    })),
    due: (await bench.deliveries(failing.endpointId)).map(({ state, attempts, holds }) => ({
      state,
      attempts,
      holds,
    })),
  };
}

async function useEmbeddedLog(pool: Pool): Promise<unknown> {
  const log = createEmbeddedLog({ pool, clock: { nowMs: Date.now }, logger });
  const topic = 'settings';
  await log.createTopics([{ topic, partitions: 2, replicas: 1, retentionMs: HOUR_MS }]);
  const publisher = log.createPublisher({ deadlineMs: DEADLINE_MS, bufferedBytesMax: 1e6 });
  const value = Buffer.from([0, 1, 92, 255]);
  const outcomes = await publisher.publish(topic, [
    { partition: 0, key: 'NULL', value },
    { partition: 0, key: 'é"\\', value, headers: { NULL: 'é' } },
    { partition: 1, key: '', value: Buffer.alloc(0) },
  ]);
  const got: unknown[] = [];
  const plain = ({ timestampMs, ...record }: LogRecord) => ({
    ...record,
    isRecent: Math.abs(timestampMs - Date.now()) < 60_000,
  });
  const consumer = log.createConsumer({
    topic,
    group: 'g',
    batchRecordsMax: 10,
    startOffset: async (_, { earliest }) => earliest,
    async onBatch({ partition, records }) {
      got.push({ partition, records: records.map(plain) });
    },
  });
  await waitFor(() => got.length === 2, { timeoutMs: STORED_TIMEOUT_MS, what: 'records' });
  await consumer.close();
  const reader = log.createReader();
  const pages: unknown[] = [];
  for await (const page of reader.pages({ topic, partition: 0, from: 0n, to: 2n }))
    pages.push(page.map(plain));
  const bounds = await reader.bounds([topic]);
  await reader.close();
  await publisher.close();
  await log.close();
  return {
    outcomes,
    got: got.map((batch) => batch as { partition: number }).sort((a, b) => a.partition - b.partition),
    pages,
    bounds,
    described: await log.describeTopics([topic]),
  };
}

/** The stored columns, without random values and times of the wall clock. */
const TABLES: Readonly<Record<string, string>> = {
  tenants: "* from tenants where tenant_id <> 'hooks'",
  api_keys:
    'api_key_id, tenant_id, scopes, expires_at, revoked_at, created_at, name, previous_valid_until, last_used_at from api_keys',
  event_keys: '* from event_keys',
  agents: '* from agents',
  agent_records: '* from agent_records',
  conversations: '* from conversations',
  conversation_records: '* from conversation_records',
  credentials: '* from credentials',
  message_sent: '* from message_sent',
  automation_events: '* from automation_events',
  conversation_states: '* from conversation_states',
  log_topics: '* from log_topics',
  log_positions: '* from log_positions',
  log_records: 'topic, partition, "offset", key, value, headers from log_records',
  tenant_usage: '* from tenant_usage',
  credential_reads: '* from credential_reads',
  webhook_messages: "type, convert_from(body, 'UTF8') as body from webhook_messages",
};

/** Reads the tables in a session with fixed settings, independent of the database's settings. */
async function dump(database: TestDatabase): Promise<unknown> {
  const client = await openClient({ connectionString: database.url, applicationName: 'settings-test' });
  await client.query(`set datestyle = 'ISO'; set timezone = 'UTC'; set intervalstyle = 'postgres';
    set bytea_output = 'hex'; set extra_float_digits = 1; set default_transaction_isolation = 'read committed'`);
  const tables: Record<string, unknown> = {};
  for (const [name, columns] of Object.entries(TABLES)) {
    const { rows } = await client.query<{ row: string }>(
      `select row_to_json(t)::text collate "C" as row from (select ${columns}) as t order by 1`,
    );
    tables[name] = rows.map(({ row }) => row);
  }
  await client.end();
  return tables;
}
