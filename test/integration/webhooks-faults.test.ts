import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';
import { parseAllowRules } from '../../shared/webhooks/addresses.ts';
import type { Attempt } from '../../workers/webhooks/attempt.ts';
import { ClaimLease } from '../../workers/webhooks/claim-lease.ts';
import { dispatchEndpoints } from '../../workers/webhooks/dispatch.ts';
import { ReadAhead } from '../../workers/webhooks/read-ahead.ts';
import { DeliveryListener } from '../../workers/webhooks/sql/listen.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startProxiedPool } from '../support/proxied-pool.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { TEST_CERTIFICATE, TEST_CERTIFICATE_KEY } from '../support/tls.ts';
import { waitFor } from '../support/wait.ts';
import { useWebhookBench } from '../support/webhook-suite.ts';
import { reply } from '../support/webhooks.ts';

const database = await createTestDatabase();
const { pool } = database;
const HOUR_MS = 3_600_000;
let tenantId: string;
let receiver: Receiver;
const { bench, start, states, waitForStates, waitForAttempts, afterTest } = useWebhookBench(
  pool,
  { deadlineMs: 2000, leaseMs: 20_000 },
  (test) => {
    ({ tenantId, receiver } = test);
  },
);

/** Deadlines longer than any test. */
const LONG = { deadlineMs: 60_000, leaseMs: 90_000 };

/** Returns an answer that is held until it is released, at the latest after the test. */
function holdAnswers(): { readonly answer: Promise<number>; release(): void } {
  let release = () => {};
  const answer = new Promise<number>((resolve) => {
    release = () => resolve(500);
  });
  afterTest(async () => release());
  return { answer, release };
}

/** Dispatches once, like a dispatcher of its own. */
async function dispatchOnce(
  endpointId: string,
  leaseMs: number,
  { attempts = [], limit = 16 }: { attempts?: readonly Attempt[]; limit?: number } = {},
) {
  const context = {
    pool,
    clock: bench.clock,
    nextId: bench.nextId,
    random: () => 0.5,
    keyRing: bench.keyRing,
    concurrency: 16,
    claimLease: new ClaimLease(leaseMs),
    leaseMs,
    ownTokens: `${bench.nextId()}-`,
  };
  const [dispatched] = await dispatchEndpoints(context, [
    {
      id: { tenantId, endpointId },
      attempts,
      unsent: [],
      slow: [],
      limit,
      held: 0,
      ahead: 0,
      failing: true,
      readAhead: new ReadAhead(),
      isClaimed: () => false,
      holdExpired: true,
    },
  ]);
  return dispatched!;
}

/** Claims deliveries like a dispatcher that is killed before it sends any of them. */
const claimAndDie = async (endpointId: string) => {
  const { deliveries } = await dispatchOnce(endpointId, 30_000);
  return deliveries.map(({ attempt, body }) => ({ attempt, number: JSON.parse(String(body)).data.number }));
};

test('the dispatcher counts an answer with an endless body by its status, and closes the connection', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script((_, response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write('x'), 20);
    response.once('close', () => clearInterval(timer));
    return undefined;
  });
  start({ deadlineMs: 15_000 });
  await bench.emit(reply(tenantId, null, 1));
  const [attempt] = await waitForAttempts(endpointId, 1);
  expect(attempt).toMatchObject({ status: 200, error: null });
  await waitFor(() => receiver.open.now === 0, { timeoutMs: 5000, what: 'the connection to be closed' });
});

test('the dispatcher fails an exchange with only interim answers at the deadline', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script((_, response) => {
    const timer = setInterval(() => response.writeProcessing(), 20);
    response.once('close', () => clearInterval(timer));
    return undefined;
  });
  start({ deadlineMs: 400 });
  await bench.emit(reply(tenantId, null, 1));
  const [attempt] = await waitForAttempts(endpointId, 1);
  expect(attempt).toMatchObject({ status: null, error: 'no complete answer within 400 ms' });
  expect(attempt!.duration_ms).toBeGreaterThanOrEqual(390);
  await waitFor(() => receiver.open.now === 0, { timeoutMs: 5000, what: 'the connection to be closed' });
});

test('the dispatcher reads an endless answer up to the limit, and keeps its start', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  let written = 0;
  receiver.script((_, response) => {
    response.writeHead(200);
    const more = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(1024, 'a'))) written += 1024;
    };
    response.on('drain', more);
    more();
    return undefined;
  });
  start();
  await bench.emit(reply(tenantId, null, 1));
  const [attempt] = await waitForAttempts(endpointId, 1);
  expect(attempt).toMatchObject({ status: 200, error: null });
  expect(attempt!.answer).toEqual(Buffer.alloc(1024, 'a'));
  await waitFor(() => receiver.open.now === 0, { timeoutMs: 5000, what: 'the connection to be closed' });
  expect(written).toBeLessThan(64 * 1024 * 1024);
});

test('the dispatcher counts a redirect as a failure and does not follow it', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script((_, response) => {
    response.setHeader('location', `${receiver.url}/elsewhere`);
    return 307;
  });
  start();
  await bench.emit(reply(tenantId, null, 1));
  const attempts = await waitForAttempts(endpointId, 1);
  expect(attempts[0]).toMatchObject({ status: 307, error: 'answered 307' });
  expect(receiver.requests.map(({ path }) => path)).toEqual(['/hooks']);
});

test('the dispatcher counts an answer that is not HTTP, and a closed connection, as failures', async () => {
  const answers = ['SSH-2.0-OpenSSH\r\n', ''];
  const server = createServer((socket: Socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(answers.shift() ?? ''));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterTest(async () => server.close());
  const { port } = server.address() as { port: number };
  const { endpointId } = await bench.endpoint(tenantId, `http://127.0.0.1:${port}/`);
  start();
  await bench.emit(reply(tenantId, null, 1), reply(tenantId, null, 2));
  for (const { status, error } of await waitForAttempts(endpointId, 2)) {
    expect([status, error]).toEqual([
      null,
      expect.stringMatching(/^could not be sent: (HTTPParserError|[A-Z_]{5,})$/),
    ]);
  }
});

test('a dispatcher sends the deliveries of a dead one again after their lease, and ignores its late results', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(reply(tenantId, 'A', 1), reply(tenantId, 'A', 2));
  const dead = await dispatchOnce(endpointId, 60_000);
  expect(dead.deliveries).toHaveLength(1);
  const [delivery] = dead.deliveries;

  start();
  await bench.emit(reply(tenantId, 'B', 3));
  await waitForStates(endpointId, ['pending', 'pending', 'delivered']);
  bench.clock.advance(61_000);
  await waitForStates(endpointId, ['delivered', 'delivered', 'delivered']);
  expect(receiver.requests.map(({ json }) => json.data.number)).toEqual([3, 1, 2]);
  expect(receiver.requests[1]!.messageId).toBe(delivery!.messageId);

  const nowMs = bench.clock.nowMs();
  const outcome = {
    kind: 'failed',
    status: 410,
    answer: undefined,
    error: 'late',
    pausedUntilMs: undefined,
    gone: true,
  } as const;
  const late = { delivery: delivery!, startedAtMs: nowMs, finishedAtMs: nowMs, outcome };
  await dispatchOnce(endpointId, 60_000, { attempts: [late], limit: 0 });
  expect(await states(endpointId)).toEqual(['delivered', 'delivered', 'delivered']);
  const attempts = await bench.attempts(endpointId);
  expect(attempts.filter(({ message_id }) => message_id === delivery!.messageId)).toMatchObject([
    { attempt: 1, error: 'the sender stopped before it knew the result' },
    { attempt: 2, error: null },
  ]);
});

test('the dispatcher ignores the result of an expired lease while a second lease is valid', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(reply(tenantId, 'A', 1));
  const dispatch = (attempts: Attempt[]) => dispatchOnce(endpointId, 1000, { attempts, limit: 1 });
  const first = (await dispatch([])).deliveries[0]!;
  bench.clock.advance(1001);
  const second = (await dispatch([])).deliveries[0]!;
  const times = { startedAtMs: bench.clock.nowMs(), finishedAtMs: bench.clock.nowMs() };
  const delivered = { kind: 'delivered', status: 200, answer: Buffer.alloc(0) } as const;
  await dispatch([{ ...times, delivery: first, outcome: delivered }]);
  expect(await states(endpointId)).toEqual(['pending']);
  await dispatch([{ ...times, delivery: second, outcome: delivered }]);
  expect(await states(endpointId)).toEqual(['delivered']);
});

test('the dispatcher fails a delivery after ten attempts whose senders all died', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(reply(tenantId, 'A', 1));
  const startMs = bench.clock.nowMs();
  const claimed: number[] = [];
  const [delivery] = await bench.deliveries(endpointId);
  for (let due = delivery; due?.state === 'pending'; [due] = await bench.deliveries(endpointId)) {
    bench.clock.advance(Math.max(0, due.due_at.getTime() + 1 - bench.clock.nowMs()));
    // Creates only the partitions for the new time.
    await bench.emit();
    claimed.push(...(await claimAndDie(endpointId)).map(({ attempt }) => attempt));
  }
  expect(await states(endpointId)).toEqual(['failed']);
  expect(claimed).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  // The sum of the delays between failed attempts, plus one lease per attempt.
  expect((bench.clock.nowMs() - startMs) / HOUR_MS).toBeCloseTo(51.6, 0);
  // Each attempt is recorded once as lost.
  const lost = { status: null, error: 'the sender stopped before it knew the result' };
  expect(await bench.attempts(endpointId)).toMatchObject(claimed.map((attempt) => ({ attempt, ...lost })));
});

test('the dispatcher retries a delivery within seconds after two senders were killed', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(reply(tenantId, 'A', 1), reply(tenantId, 'A', 2));
  for (let kill = 0; kill < 2; kill += 1) {
    expect(await claimAndDie(endpointId)).toHaveLength(1);
    bench.clock.advance(30_001);
  }
  // The third claim finds two lost attempts.
  expect(await claimAndDie(endpointId)).toHaveLength(0);
  bench.clock.advance(6_000);
  start();
  await waitForStates(endpointId, ['delivered', 'delivered']);
  expect(receiver.requests.map(({ json }) => json.data.number)).toEqual([1, 2]);
});

test('the dispatcher serves an endpoint again after the leases of a killed dispatcher', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(...Array.from({ length: 40 }, (_, n) => reply(tenantId, null, n)));
  // All exchanges that the endpoint may have.
  expect((await dispatchOnce(endpointId, 2000)).deliveries).toHaveLength(16);
  start();
  await waitForStates(endpointId, Array(40).fill('delivered'));
  const attempts = (await bench.deliveries(endpointId)).map((delivery) => delivery.attempts);
  expect(attempts.filter((count) => count === 2)).toHaveLength(16);
});

test('the dispatcher sends unsent deliveries in order after half an hour of killed senders', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(reply(tenantId, 'A', 1), reply(tenantId, 'A', 2), reply(tenantId, null, 3));
  for (let kill = 0; kill < 60; kill += 1) {
    await claimAndDie(endpointId);
    bench.clock.advance(30_001);
  }
  expect(await states(endpointId)).toEqual(['pending', 'pending', 'pending']);
  bench.clock.advance(29 * 60_000);
  start();
  await waitForStates(endpointId, ['delivered', 'delivered', 'delivered']);
  const numbers = receiver.requests.map(({ json }) => json.data.number);
  expect(numbers.filter((number) => number !== 3)).toEqual([1, 2]);
});

test('the dispatcher holds a conversation for at most an hour after a delivery whose senders die', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  await bench.emit(reply(tenantId, 'A', 1), reply(tenantId, 'A', 2));
  for (let kill = 0; kill < 3; kill += 1) {
    await claimAndDie(endpointId);
    bench.clock.advance(6 * 60_000);
  }
  for (let kill = 0; kill < 8; kill += 1) {
    expect(await claimAndDie(endpointId)).not.toContainEqual(expect.objectContaining({ number: 2 }));
    bench.clock.advance(5 * 60_000);
  }
  bench.clock.advance(15 * 60_000);
  expect((await claimAndDie(endpointId)).map(({ number }) => number)).toContain(2);
});

test('the dispatcher waits for exchanges in flight and records them on close, and claims nothing more', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  let answer: (status: number) => void = () => {};
  receiver.script(() => new Promise((resolve) => (answer = resolve)));
  const dispatcher = start();
  await bench.emit(reply(tenantId, 'A', 1), reply(tenantId, 'A', 2));
  await waitFor(() => receiver.requests.length === 1, { timeoutMs: 5000, what: 'the exchange' });
  const closed = dispatcher.close();
  answer(200);
  await closed;
  expect(await states(endpointId)).toEqual(['delivered', 'pending']);
  expect(receiver.requests).toHaveLength(1);
  receiver.script(() => 200);
  start();
  await waitForStates(endpointId, ['delivered', 'delivered']);
});

test('the dispatcher frees the slots of an endpoint that a restored database lacks, and closes', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  let answer: (status: number) => void = () => {};
  receiver.script(() => new Promise((resolve) => (answer = resolve)));
  // Longer than the test, because `close` must not wait for the deadline or the lease.
  const dispatcher = start(LONG);
  await bench.emit(reply(tenantId, 'A', 1));
  await waitFor(() => receiver.requests.length === 1, { timeoutMs: 5000, what: 'the exchange' });
  await pool.query('delete from webhook_endpoints where tenant_id = $1 and endpoint_id = $2', [
    tenantId,
    endpointId,
  ]);
  answer(200);
  await dispatcher.close();
});

test('the dispatcher sends on notification, also after its connections were lost', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  start({ pollMs: 600_000 });
  await bench.emit(reply(tenantId, null, 1));
  await waitForStates(endpointId, ['delivered']);
  await pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`,
  );
  const listening =
    "select 1 from pg_stat_activity where datname = current_database() and query like 'listen %'";
  await waitFor(async () => (await pool.query(listening)).rowCount === 1, {
    timeoutMs: 10_000,
    what: 'LISTEN',
  });
  await bench.emit(reply(tenantId, null, 2));
  await waitForStates(endpointId, ['delivered', 'delivered']);
});

test('a listener on an address of its own replaces its connection on request', async () => {
  const listener = new DeliveryListener({
    pool,
    directUrl: database.url,
    logger: pino({ level: 'silent' }),
    onDeliveries() {},
  });
  afterTest(() => listener.close());
  const listening = async () => {
    const { rows } = await pool.query<{ pid: number }>(
      `select pid from pg_stat_activity
        where datname = current_database() and application_name = 'sluice-listen' and query like 'listen %'`,
    );
    return rows.length === 1 && rows[0]!.pid;
  };
  const first = await waitFor(listening, { timeoutMs: 5000, what: 'LISTEN' });
  listener.reconnect(new Error('the server is read-only'));
  await waitFor(async () => ![false, first].includes(await listening()), {
    timeoutMs: 5000,
    what: 'LISTEN on another connection',
  });
});

test('the dispatcher records a result once the database is back, and sends nothing twice', async () => {
  const { pool, proxy, close } = await startProxiedPool(database.url, { max: 6 });
  afterTest(async () => {
    await dispatcher.close();
    await close();
  });
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  let answer: (status: number) => void = () => {};
  receiver.script(() => new Promise((resolve) => (answer = resolve)));
  const dispatcher = bench.dispatcher({ pool, deadlineMs: 5000, leaseMs: 60_000 });
  await bench.emit(reply(tenantId, null, 1));
  await waitFor(() => receiver.requests.length === 1, { timeoutMs: 5000, what: 'the exchange' });
  const cutting = setInterval(() => proxy.cut(), 1);
  proxy.cut();
  answer(200);
  await waitFor(() => dispatcher.problem(), { timeoutMs: 10_000, what: 'the problem to be reported' });
  clearInterval(cutting);
  await waitForStates(endpointId, ['delivered']);
  await waitFor(() => dispatcher.problem() === undefined, {
    timeoutMs: 10_000,
    what: 'the problem to disappear',
  });
  expect(receiver.requests).toHaveLength(1);
});

test('the dispatcher sends, and only once, although a claim takes longer than its lease', async () => {
  const { pool, proxy, close } = await startProxiedPool(database.url, { max: 6 });
  afterTest(async () => {
    await dispatcher.close();
    await close();
  });
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const dispatcher = bench.dispatcher({ pool, claimLeaseMs: 200, pollMs: 100 });
  proxy.delay(100);
  await bench.emit(reply(tenantId, null, 1));
  await waitForStates(endpointId, ['delivered']);
  expect(receiver.requests).toHaveLength(1);
});

test('the dispatcher sends to healthy endpoints without delay while others never answer', async () => {
  await bench.tenant(`${tenantId}x`);
  const held = holdAnswers();
  receiver.script(({ path }) => (path.endsWith('/dead') ? held.answer : 200));
  for (let i = 0; i < 40; i += 1) await bench.endpoint(tenantId, `${receiver.url}/dead`);
  const healthy = await bench.endpoint(`${tenantId}x`, receiver.url);
  start({ ...LONG, exchangesMax: 32 });
  await bench.emit(...[1, 2, 3].map((n) => reply(tenantId, null, n)));
  await waitFor(() => receiver.open.now >= 16, {
    timeoutMs: 5000,
    what: 'the dead endpoints to hold their slots',
  });
  await bench.emit(...Array.from({ length: 20 }, (_, n) => reply(`${tenantId}x`, 'A', n)));
  await waitForStates(healthy.endpointId, Array(20).fill('delivered'));
  expect(receiver.open.now).toBeGreaterThanOrEqual(16);
  held.release();
});

test('a new dispatcher gives endpoints that fail already at most half of the exchanges', async () => {
  const dead = await startReceiver({ eventsOfTest: true });
  afterTest(() => dead.close());
  const held = holdAnswers();
  dead.script(() => held.answer);
  const failing = Array.from({ length: 8 }, (_, i) => `${tenantId}-${i}`);
  for (const failingTenant of failing) {
    await bench.tenant(failingTenant);
    const { endpointId } = await bench.endpoint(failingTenant, dead.url);
    await pool.query(
      `update webhook_endpoints set failures = 1, failing_since = $2, last_failure_at = $2
        where endpoint_id = $1`,
      [endpointId, new Date(bench.clock.nowMs() - 60_000)],
    );
  }
  await bench.emit(...failing.map((failingTenant) => reply(failingTenant, null, 1)));
  const healthy = await bench.endpoint(tenantId, receiver.url);
  start({ ...LONG, exchangesMax: 8 });
  await waitFor(() => dead.open.now >= 4, {
    timeoutMs: 4000,
    what: 'the failing endpoints to hold half of the slots',
  });
  await bench.emit(reply(tenantId, null, 2));
  await waitForStates(healthy.endpointId, ['delivered']);
  expect(dead.open).toEqual({ now: 4, most: 4 });
  held.release();
});

test('the dispatcher sends waiting deliveries and their conversation after the clock was set back an hour', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  receiver.script(() => (receiver.requests.length === 1 ? 500 : 200));
  start({ random: () => 0 });
  await bench.emit(reply(tenantId, 'conversation', 1));
  // Due again after 5 s of the clock that is now set back.
  await waitForAttempts(endpointId, 1);
  await bench.emit(reply(tenantId, 'conversation', 2));
  bench.clock.advance(-HOUR_MS);
  await bench.emit(reply(tenantId, 'conversation', 3));
  await waitForStates(endpointId, ['delivered', 'delivered', 'delivered']);
  expect(receiver.requests.map(({ json }) => json.data.number)).toEqual([1, 1, 2, 3]);
  // Receivers compare the timestamp with their own clock.
  const signedMs = Number(receiver.requests.at(-1)!.headers['webhook-timestamp']) * 1000;
  expect(Math.abs(signedMs - bench.clock.nowMs())).toBeLessThan(HOUR_MS / 2);
});

test('the dispatcher records results after a clock that was far ahead was corrected', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  start();
  bench.clock.advance(40 * 24 * HOUR_MS);
  // The dispatcher reads its clock 10 times per second.
  await delay(500);
  bench.clock.advance(-40 * 24 * HOUR_MS);
  await bench.emit(reply(tenantId, null, 1));
  await waitForStates(endpointId, ['delivered']);
  expect(receiver.requests).toHaveLength(1);
});

test('the dispatcher connects to the address that was checked, at every attempt', async () => {
  const { endpointId } = await bench.endpoint(tenantId, `http://receiver.test:${receiver.port}/hooks`);
  let answers: string[][] = [['10.0.0.1', '169.254.169.254']];
  start({ allow: parseAllowRules('127.0.0.1/32'), random: () => 0, resolve: async () => answers[0]! });
  await bench.emit(reply(tenantId, null, 1));
  const [refused] = await waitForAttempts(endpointId, 1);
  expect(refused).toMatchObject({ status: null, error: 'the URL has an address that is not public' });
  // Only the permitted one of several addresses is dialled.
  answers = [['10.0.0.1', '127.0.0.1']];
  bench.clock.advance(6000);
  await waitForStates(endpointId, ['delivered']);
  expect(receiver.requests).toHaveLength(1);
});

test.each(['127.0.0.1', '2130706433', '0x7f000001', '[::ffff:7f00:1]', '[::1]', 'localhost', 'a.localhost.'])(
  'the dispatcher does not dial %s without a rule',
  async (host) => {
    const { endpointId } = await bench.endpoint(tenantId, `http://${host}:${receiver.port}/`);
    start({ allow: [] });
    await bench.emit(reply(tenantId, null, 1));
    const [refused] = await waitForAttempts(endpointId, 1);
    expect(refused).toMatchObject({ status: null, error: 'the URL has an address that is not public' });
    expect(receiver.requests).toEqual([]);
  },
);

test('the dispatcher fails an exchange with an untrusted certificate', async () => {
  const secure = await startReceiver({
    tls: { key: TEST_CERTIFICATE_KEY, cert: TEST_CERTIFICATE },
    eventsOfTest: true,
  });
  afterTest(() => secure.close());
  const url = `https://receiver.test:${secure.port}/`;
  const { endpointId } = await bench.endpoint(tenantId, url);
  const resolve = async () => ['127.0.0.1'];
  const distrusting = start({ resolve, random: () => 0 });
  await bench.emit(reply(tenantId, null, 1));
  const [refused] = await waitForAttempts(endpointId, 1);
  expect(refused).toMatchObject({ status: null, error: 'could not be sent: DEPTH_ZERO_SELF_SIGNED_CERT' });
  await distrusting.close();
  bench.clock.advance(6000);
  start({ resolve, ca: TEST_CERTIFICATE });
  await waitForStates(endpointId, ['delivered']);
  expect(secure.requests).toHaveLength(1);
});

test('the dispatcher keeps the deliveries of an endpoint whose key is lost, without counting attempts', async () => {
  const lost = await bench.endpoint(tenantId, `${receiver.url}/lost`);
  const { keyId, ciphertext } = createKeyRing(generateKeySpec()).encrypt(Buffer.alloc(32), []);
  await pool.query(
    'update webhook_endpoints set secret_key_id = $1, secret_ciphertext = $2 where endpoint_id = $3',
    [keyId, ciphertext, lost.endpointId],
  );
  const other = await bench.endpoint(tenantId, `${receiver.url}/other`);
  start();
  await bench.emit(reply(tenantId, null, 1));
  await waitForStates(other.endpointId, ['delivered']);
  expect(await bench.deliveries(lost.endpointId)).toMatchObject([{ state: 'pending', attempts: 0 }]);
});

test('the dispatcher reuses connections', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  start();
  await bench.emit(...Array.from({ length: 10 }, (_, n) => reply(tenantId, 'A', n)));
  await waitForStates(endpointId, Array(10).fill('delivered'));
  expect(new Set(receiver.requests.map(({ connection }) => connection)).size).toBe(1);
});
