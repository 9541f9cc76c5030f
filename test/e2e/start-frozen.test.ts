import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { connectionStringOf, readConnectionFile } from '../../cli/data-dir/connection-file.ts';
import { systemClock } from '../../shared/clock.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { freePorts, type Program, runProgram, startProgram, waitUntilReady } from '../support/program.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { stopProcess } from '../support/stop-process.ts';
import { waitFor } from '../support/wait.ts';

const TOPIC = 'sluice.automation-events';
const EVENTS = 20;
const nextId = createUlidGenerator(systemClock);

let dataDir: string;
let receiver: Receiver;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'sluice-frozen-'));
  receiver = await startReceiver();
  onTestFinished(async () => {
    await receiver.close();
    await rm(dataDir, { recursive: true, force: true });
  });
});

it('npm start stores and sends nothing twice when a second start takes over from a frozen process', async () => {
  const first = await startSluice();
  const pool = await openPool();
  await createEndpoint(first.adminUrl);
  await sendEvents(first.url, 'before', 1);
  await untilStoredAndSent(pool, 1);

  const lock = await lockPositions(pool);
  await sendEvents(first.url, 'waiting', EVENTS);
  await lock.waitedFor();
  await stopProcess(first.program.process.pid!);
  // Postgres cancels the frozen process's statement after its lock timeout, so its transaction
  // holds no rows.
  await lock.refused();
  await lock.release();
  expect((await storedIds(pool)).length).toBe(1);

  const refused = await runProgram('embedded/main.js', [], (await settings()).env);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain(
    `already running on this data directory (process ${first.program.process.pid})`,
  );

  await endInstanceLock(pool, first.program.process.pid!);
  const second = await startSluice();
  await untilStoredAndSent(pool, 1 + EVENTS);

  first.program.process.kill('SIGCONT');
  await waitFor(() => first.program.process.exitCode !== null, {
    timeoutMs: 20_000,
    what: 'the first to end',
  });
  expect(first.program.process.exitCode).toBe(1);
  expect(first.program.output()).toContain('the data directory belongs to another process now');

  await sendEvents(second.url, 'after', 1);
  await untilStoredAndSent(pool, 2 + EVENTS);
  const ids = await storedIds(pool);
  expect(new Set(ids).size).toBe(ids.length);
  const sent = receiver.requests.map(({ messageId }) => messageId);
  expect(new Set(sent).size).toBe(sent.length);
  await pool.end();
  expect(await second.program.end('SIGTERM')).toBe(0);
}, 120_000);

async function settings() {
  const [port, adminPort] = await freePorts(2);
  return {
    url: `http://127.0.0.1:${port}`,
    adminUrl: `http://127.0.0.1:${adminPort}`,
    env: {
      PORT: String(port),
      ADMIN_PORT: String(adminPort),
      SLUICE_DATA_DIR: dataDir,
      SLUICE_WEBHOOK_ALLOW: '127.0.0.0/8',
      SLUICE_DRAIN_DELAY_MS: '0',
    },
  };
}

async function startSluice(): Promise<{ program: Program; url: string; adminUrl: string }> {
  const { env, url, adminUrl } = await settings();
  const program = startProgram('embedded/main.js', env);
  onTestFinished(async () => {
    program.process.kill('SIGCONT');
    await program.end('SIGTERM');
  });
  await waitUntilReady(program, url);
  return { program, url, adminUrl };
}

async function openPool(): Promise<Pool> {
  const connection = await readConnectionFile(dataDir);
  return createPool({
    connectionString: connectionStringOf(connection!),
    max: 3,
    applicationName: 'sluice-test',
    logger: pino({ level: 'silent' }),
  });
}

async function post(url: string, body: object): Promise<void> {
  const demo = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'));
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'service-api-id': demo.apiKeyId,
      'service-api-secret': demo.apiKeySecret,
      'content-type': 'application/json',
    },
    body: JSON.stringify(body),
  });
  expect([response.ok, await response.text()]).toEqual([true, expect.anything()]);
}

const createEndpoint = (adminUrl: string) => post(`${adminUrl}/admin/v1/webhooks`, { url: receiver.url });

/** Sends each event in a separate conversation, so that no event waits for another's webhook. */
function sendEvents(url: string, name: string, count: number): Promise<void> {
  const items = Array.from({ length: count }, (_, index) => ({
    eventId: nextId(),
    conversationId: `${name}-${index}`,
    externalConversationId: `${name}-${index}`,
    type: 'processingStart',
    occurredAt: new Date().toISOString(),
  }));
  return post(`${url}/automation-agent/v1/events`, { items });
}

async function storedIds(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ event_id: string }>('select event_id from automation_events');
  return rows.map(({ event_id }) => event_id);
}

async function untilStoredAndSent(pool: Pool, count: number): Promise<void> {
  await waitFor(async () => (await storedIds(pool)).length >= count, {
    timeoutMs: 30_000,
    what: `${count} stored events`,
  });
  await waitFor(() => receiver.requests.length >= count, { timeoutMs: 30_000, what: `${count} webhooks` });
  // A webhook without a recorded result is sent again when its lease expires.
  await waitFor(async () => (await pool.query('select from webhook_attempts')).rowCount! >= count, {
    timeoutMs: 30_000,
    what: `the results of ${count} webhooks`,
  });
}

/** Locks the rows that a worker must lock before it stores any record of the topic. */
async function lockPositions(pool: Pool) {
  const client = await pool.connect();
  await client.query('begin');
  const { rows } = await client.query<{ pid: number }>(
    'select pg_backend_pid() as pid from log_positions where topic = $1 for update',
    [TOPIC],
  );
  const waiters = async () =>
    (await pool.query('select from pg_stat_activity where $1 = any (pg_blocking_pids(pid))', [rows[0]!.pid]))
      .rowCount!;
  return {
    waitedFor: () =>
      waitFor(async () => (await waiters()) > 0, { timeoutMs: 10_000, what: 'a worker to wait' }),
    refused: () =>
      waitFor(async () => (await waiters()) === 0, { timeoutMs: 10_000, what: 'no waiting worker' }),
    async release() {
      await client.query('rollback');
      client.release();
    },
  };
}

/** Ends the connection that holds the instance lock, without ending its process. */
async function endInstanceLock(pool: Pool, pid: number): Promise<void> {
  const { rowCount } = await pool.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1',
    [`sluice-instance ${pid}`],
  );
  expect(rowCount).toBe(1);
}
