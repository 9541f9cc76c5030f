import { expect, it, onTestFinished } from 'vitest';
import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { AUTOMATION_EVENT_TYPES } from '../../shared/kinds/automation-events.ts';
import { inTransaction } from '../../shared/postgres/pool.ts';
import { RETENTION_STEPS, runRetention } from '../../shared/postgres/retention/run-retention.ts';
import { createTenant } from '../../shared/postgres/tenants.ts';
import { ensureTimePartitions, TIME_PARTITIONED_TABLES } from '../../shared/postgres/time-partitions.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { automationEvents } from '../../workers/kinds/automation-events.ts';
import { applyAutomationEvent } from '../../workers/kinds/automation-state.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import type { RecordKind } from '../../workers/kinds/record-kind.ts';
import { type ConversationState, lockConversationStates } from '../../workers/sql/conversation-states.ts';
import { runSluice } from '../support/command.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { printedSeed, seededRandom } from '../support/random.ts';
import { waitFor } from '../support/wait.ts';
import { createWorkerBench } from '../support/worker-bench.ts';

const DAY_MS = 86_400_000;
const DAYS = 30;
const KEEP = { agents: DAYS, conversations: DAYS, messages: DAYS, events: DAYS, webhooks: DAYS, audit: DAYS };

const database = await createTestDatabase();
const { pool } = database;
const random = seededRandom(printedSeed('retention'));
const upTo = (max: number) => Math.floor(random() * (max + 1));
const oneOf = <T>(values: readonly T[]): T => values[upTo(values.length - 1)]!;

let benches = 0;
async function createBench<Row>(kind: RecordKind<Row>) {
  benches += 1;
  const bench = await createWorkerBench(pool, kind, `retention${benches}.`);
  const name = `tenant-${benches}`;
  await createTenant(pool, { tenantId: bench.tenantId, name, rate: 'default', createdAtMs: bench.clock.ms });
  return bench;
}

/** Resolves with the Mondays of a table's weeks, as their tables' names contain them. */
async function weeksOf(table: string): Promise<string[]> {
  const { rows } = await pool.query<{ week: string }>(
    `select right(relname, 8) as week from pg_class
      where relkind = 'r' and relname ~ ('^' || $1 || '_p[0-9]{8}$') order by 1`,
    [table],
  );
  return rows.map(({ week }) => week);
}

const ENTITIES = Array.from({ length: 25 }, (_, i) => `entity-${String(i).padStart(2, '0')}`);
/** Breaks a record of any kind. */
const BROKEN: JsonObject = { lobId: 7, conversationId: 7 };
const FIXED = { '"lobId":7': '"lobId":"fixed"', '"conversationId":7': '"conversationId":"FIXED"' };

interface Sent {
  readonly id: string;
  readonly entity: string;
  /** The data that is stored in the end. */
  readonly data: JsonObject;
}

/**
 * Stores records of 60 days, whose times differ from the order of the log by up to 9 days. Some are
 * dead letters.
 */
async function storeHistory<Row>(kind: RecordKind<Row>, dataOf: (entity: string) => JsonObject) {
  const bench = await createBench(kind);
  const { consumer, close } = bench.startWorker();
  onTestFinished(close);
  const sent: Sent[] = [];
  for (let i = 0; i < 250; i++) {
    const entity = ENTITIES[i < ENTITIES.length ? i : upTo(ENTITIES.length - 1)]!;
    const id = `01J${String(i).padStart(23, '0')}`;
    const acceptedAtMs = bench.clock.ms - 60 * DAY_MS + i * 0.15 * DAY_MS + upTo(9) * DAY_MS;
    const data = dataOf(entity);
    const isValid = random() < 0.9;
    const options = { id, entity, acceptedAtMs: isValid ? acceptedAtMs : bench.clock.ms };
    bench.append(isValid ? data : { ...data, ...BROKEN }, options);
    const fixed = data.conversationId === undefined ? { lobId: 'fixed' } : { conversationId: 'FIXED' };
    sent.push({ id, entity, data: isValid ? data : { ...data, ...fixed } });
  }
  await consumer.read(0);
  return { bench, consumer, sent };
}

/** Replays the dead letters with valid data. */
async function replayAll({
  bench,
  consumer,
}: Pick<Awaited<ReturnType<typeof storeHistory>>, 'bench' | 'consumer'>) {
  const letters = await bench.deadLetters();
  expect(letters.length).toBeGreaterThan(5);
  const offsets: bigint[] = [];
  for (const letter of letters) {
    let value = String(letter.value);
    for (const [broken, fixed] of Object.entries(FIXED)) value = value.replace(broken, fixed);
    offsets.push(await bench.replay(letter, Buffer.from(value)));
  }
  await consumer.deliver(0, offsets[0]!);
  expect((await bench.deadLetters()).map(({ state }) => state)).toEqual(letters.map(() => 'replayed'));
}

const agentData = (entity: string): JsonObject => ({
  externalAgentId: entity,
  ...(random() < 0.5 && { lobId: oneOf(['x', 'y', 'z', null]) }),
  ...(random() < 0.1 && { campaign: oneOf(['spring', 'autumn', null]) }),
  ...(random() < 0.1 && { ranking: oneOf([1, 2, 3, null]) }),
  ...(random() < 0.05 && { groupName: oneOf(['Ann', 'Bob']) }),
});

const eventData = (entity: string): JsonObject => {
  const type = oneOf(AUTOMATION_EVENT_TYPES);
  return {
    conversationId: `C${upTo(3)}`,
    externalConversationId: entity,
    type,
    occurredAt: '2026-06-01T00:00:00Z',
    ...(random() < 0.1 && { currentTaskName: `task-${upTo(9)}` }),
    ...(type === 'reply' && { reply: { messageId: 'm', text: 'hello' } }),
    ...(type === 'transferToSystem' && random() < 0.5 && { transferToSystem: { currentTaskName: 'last' } }),
  };
};

it.each([
  ['agents', agentMetadata, ['lobId', 'ranking', 'groupName']],
  ['conversations', conversationMetadata, ['lobId', 'campaign', 'groupName']],
] as const)(
  '%s have the last value of each member after weeks were dropped and records replayed',
  async (...given) => {
    const [table, kind, members] = given;
    const idOf = (entity: string) =>
      table === 'agents' ? agentData(entity) : { ...agentData(entity), externalConversationId: entity };
    const stored = await storeHistory(kind, idOf);
    const { bench, sent } = stored;
    const report = await runRetention({ pool, clock: bench.clock, retention: KEEP });
    expect(report!.dropped.length).toBeGreaterThan(2);
    await replayAll(stored);
    const { rows } = await pool.query(
      `select ${table === 'agents' ? 'external_agent_id' : 'external_conversation_id'} as entity, lob_id as "lobId",
            ${table === 'agents' ? 'ranking' : 'campaign'} as "${members[1]}", group_name as "groupName"
       from ${table} where tenant_id = $1 order by 1`,
      [bench.tenantId],
    );
    const expected = ENTITIES.map((entity) => {
      const merged: JsonObject = Object.assign(
        {},
        ...sent.filter((one) => one.entity === entity).map(({ data }) => data),
      );
      return { entity, ...Object.fromEntries(members.map((name) => [name, merged[name] ?? null])) };
    });
    expect(rows).toEqual(expected);
  },
);

it('states equal a fold of all events after weeks were dropped and events replayed', async () => {
  const stored = await storeHistory(automationEvents, eventData);
  const { bench, sent } = stored;
  const report = await runRetention({ pool, clock: bench.clock, retention: KEEP });
  expect(report!.dropped.length).toBeGreaterThan(2);
  await replayAll(stored);
  const ids = ENTITIES.map((entity) => ({ tenantId: bench.tenantId, entity }));
  const states = await inTransaction(pool, (db) => lockConversationStates(db, ids));
  const expected = ENTITIES.map((entity) =>
    sent
      .filter((one) => one.entity === entity)
      .map(({ id, data }) => automationEvents.read({ id, data } as unknown as AcceptedRecord))
      .reduce<ConversationState | undefined>(applyAutomationEvent, undefined),
  );
  expect(states.map(({ state }) => state)).toEqual(expected);
});

it('a run that ends at any step is completed by the next one', async () => {
  const { bench } = await storeHistory(agentMetadata, agentData);
  const before = await weeksOf('agent_records');
  const expired = before.filter((week) => week < '20260504');
  expect(expired.length).toBeGreaterThan(2);
  const retention = { agents: DAYS };
  for (const step of RETENTION_STEPS) {
    const ends = new Error('the process ends here');
    const onStep = (reached: string) => {
      if (reached === step) throw ends;
    };
    await expect(runRetention({ pool, clock: bench.clock, retention, onStep })).rejects.toBe(ends);
  }
  const { rows } = await pool.query<{ attached: number }>(
    `select count(*)::int as attached from pg_inherits where inhparent = 'agent_records'::regclass`,
  );
  expect(rows[0]!.attached).toBeLessThan(before.length);
  await runRetention({ pool, clock: bench.clock, retention });
  expect(await weeksOf('agent_records')).toEqual(before.filter((week) => !expired.includes(week)));
});

it('workers store records while a week waits for a query that reads it', async () => {
  const bench = await createBench(agentMetadata);
  const oldMs = bench.clock.ms - 50 * DAY_MS;
  await ensureTimePartitions(pool, 'agent_records', oldMs, oldMs);
  const reader = await pool.connect();
  const { consumer, close } = bench.startWorker();
  onTestFinished(close);
  try {
    await reader.query('begin');
    await reader.query('select count(*) from agent_records');
    const running = runRetention({
      pool,
      clock: bench.clock,
      retention: { agents: DAYS },
      detachTimeoutMs: 1500,
    });
    running.catch(() => undefined);
    await waitFor(async () => (await database.countLockWaits()) > 0, {
      timeoutMs: 5000,
      what: 'the week to wait for the reader',
    });
    bench.append({ externalAgentId: 'a' }, { entity: 'a' });
    await consumer.read(0);
    // On Citus the run has ended: writers wait behind it, so it waits only briefly.
    if (!pool.isCitus) {
      expect(await runRetention({ pool, clock: bench.clock, retention: { agents: DAYS } })).toBeUndefined();
    }
    await expect(running).rejects.toMatchObject({ code: 'WEEK_IN_USE', retryable: true });
    await reader.query('commit');
    await waitFor(
      async () => {
        // The statement of the run before may still be ending.
        const report = await runRetention({ pool, clock: bench.clock, retention: { agents: DAYS } });
        return report?.dropped.some(({ partition }) => partition === 'agent_records_p20260420') ?? false;
      },
      { timeoutMs: 10_000, what: 'the week to be dropped' },
    );
  } finally {
    reader.release();
  }
});

it('waiting webhooks keep their bodies, and weeks with deliveries of an earlier release are kept', async () => {
  const bench = await createBench(agentMetadata);
  const oldMs = bench.clock.ms - 50 * DAY_MS;
  const times = [oldMs, oldMs + 7 * DAY_MS];
  for (const table of ['webhook_messages', 'webhook_deliveries'] as const) {
    for (const time of times) await ensureTimePartitions(pool, table, time, time);
  }
  await pool.query(
    `insert into webhook_messages (tenant_id, message_id, created_at, type, body)
     select $1, 'm' || n, created_at, 'webhook.test', '\\x01' from unnest($2::timestamptz[]) with ordinality as t (created_at, n)`,
    [bench.tenantId, times.map((ms) => new Date(ms))],
  );
  await pool.query(
    `insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, due_at) values ($1, 'e', 'm1', $2, 1, $2)`,
    [bench.tenantId, new Date(oldMs)],
  );
  await pool.query(
    `insert into webhook_deliveries (tenant_id, endpoint_id, message_id, created_at, seq, due_at, state)
     values ($1, 'e', 'm2', $2, 1, $2, 'pending')`,
    [bench.tenantId, new Date(times[1]!)],
  );
  const report = await runRetention({ pool, clock: bench.clock, retention: { webhooks: DAYS } });
  expect(report!.dropped.map(({ partition }) => partition)).toEqual([
    'webhook_deliveries_p20260420',
    'webhook_messages_p20260420',
  ]);
  expect(report!.kept.map(({ partition }) => partition)).toEqual([
    'webhook_deliveries_p20260427',
    'webhook_messages_p20260427',
  ]);
  const { rows } = await pool.query('select body from webhook_queue where tenant_id = $1', [bench.tenantId]);
  expect(rows).toEqual([{ body: Buffer.from([1]) }]);
});

it('records that are older than their retention become dead letters, also after their week is dropped', async () => {
  const bench = await createBench(agentMetadata);
  const { consumer, close } = bench.startWorker({ recordAgeMaxMs: DAYS * DAY_MS });
  onTestFinished(close);
  const ages = [DAYS - 1, DAYS + 1];
  for (const age of ages) {
    bench.append({ externalAgentId: 'a' }, { entity: 'a', acceptedAtMs: bench.clock.ms - age * DAY_MS });
  }
  await consumer.read(0);
  expect((await bench.deadLetters()).map(({ reason }) => reason)).toEqual(['time']);
  const { rows } = await pool.query('select from agent_records where tenant_id = $1', [bench.tenantId]);
  expect(rows).toHaveLength(1);
});

it('sluice retention run shows and drops what the settings permit', async () => {
  const oldMs = Date.now() - 50 * DAY_MS;
  for (const table of TIME_PARTITIONED_TABLES) await ensureTimePartitions(pool, table, oldMs, oldMs);
  await pool.query(
    `insert into credentials (tenant_id, conversation_id, event_id, customer_external_id, key_id, ciphertext, accepted_at, expires_at, generation, partition, "offset", request_id, stored_at)
     select 't', 'C', id, 'c', 'k', ciphertext, $1, $1, 1, 0, 0, 'r', $1
       from (values ('erased', null), ('not erased', '\\x01'::bytea)) as ids (id, ciphertext)`,
    [new Date(oldMs)],
  );
  const env = {
    DATABASE_URL: database.url,
    SLUICE_RETENTION_MESSAGES_DAYS: '30',
    SLUICE_RETENTION_CREDENTIALS_DAYS: '30',
  };
  const dry = await runSluice('retention run --dry-run', env);
  expect(dry).toMatchObject({ code: 0, stderr: '' });
  expect(dry.stdout).toContain('Kept: messages for 30 days, credentials for 30 days.');
  expect(dry.stdout).toContain('SLUICE_RETENTION_AGENTS_DAYS');
  const dropped = JSON.parse((await runSluice('retention run --json', env)).stdout);
  expect(dropped).toMatchObject({ dryRun: false, credentials: 1 });
  expect(new Set(dropped.weeks.map(({ table }: { table: string }) => table))).toEqual(
    new Set(['message_sent']),
  );
  expect((await runSluice('retention run', env)).stdout).toContain('Nothing is past its retention.');
  const { rows } = await pool.query(`select event_id from credentials where tenant_id = 't'`);
  expect(rows).toEqual([{ event_id: 'not erased' }]);
  expect(await runSluice('retention run', { ...env, SLUICE_RETENTION_AUDIT_DAYS: '7' })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      'SLUICE_RETENTION_AUDIT_DAYS must be a whole number of days from 8 to 36500',
    ),
  });
});
