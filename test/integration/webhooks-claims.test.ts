import { expect, test } from 'vitest';
import { ClaimLease } from '../../workers/webhooks/claim-lease.ts';
import { dispatchEndpoints } from '../../workers/webhooks/dispatch.ts';
import { ReadAhead } from '../../workers/webhooks/read-ahead.ts';
import { createTestDatabase } from '../support/postgres.ts';
import type { Receiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';
import { useWebhookBench } from '../support/webhook-suite.ts';
import { reply } from '../support/webhooks.ts';

/** More deliveries than a dispatcher claims of one endpoint while none is answered. */
const DELIVERIES = 100;
const CONCURRENCY = 16;
/** The lease of a delivery that was claimed; see DispatcherOptions. */
const CLAIM_LEASE_MS = 5000;
const LEASE_MS = 60_000;
const { pool } = await createTestDatabase();
let tenantId: string;
let receiver: Receiver;
const { bench, start, received, waitForStates } = useWebhookBench(
  pool,
  { deadlineMs: 30_000, leaseMs: LEASE_MS },
  (test) => {
    ({ tenantId, receiver } = test);
  },
);

interface QueuedRow {
  readonly attempts: number;
  readonly leased: boolean;
  readonly dueAt: Date;
}

async function queued(): Promise<QueuedRow[]> {
  const { rows } = await pool.query<QueuedRow>(
    `select attempts, lease_token is not null as leased, due_at as "dueAt" from webhook_queue where tenant_id = $1`,
    [tenantId],
  );
  return rows;
}

/**
 * Starts a dispatcher for an endpoint that holds its answers. Resolves once all exchanges that the
 * endpoint may have are in flight, and more deliveries are claimed.
 */
async function startWithHeldAnswers() {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const answers: ((status: number) => void)[] = [];
  receiver.script(
    (_, response) =>
      new Promise((resolve) =>
        answers.push((status) => {
          if (status === 503) response.setHeader('retry-after', '600');
          resolve(status);
        }),
      ),
  );
  await bench.emit(...Array.from({ length: DELIVERIES }, (_, n) => reply(tenantId, null, n)));
  const dispatcher = start();
  await received(CONCURRENCY);
  return { endpointId, dispatcher, answers };
}

test('the dispatcher claims ahead of its exchanges, under a lease of 5 seconds', async () => {
  await startWithHeldAnswers();
  const claimed = (await queued()).filter(({ leased }) => leased);
  expect(claimed.length).toBeGreaterThanOrEqual(CONCURRENCY);
  const latest = Math.max(...claimed.map(({ dueAt }) => dueAt.getTime()));
  expect(latest - bench.clock.nowMs()).toBeLessThanOrEqual(CLAIM_LEASE_MS);
});

test('a slow endpoint keeps the leases of its exchanges, and what was not sent is given back', async () => {
  await startWithHeldAnswers();
  await waitFor(
    async () => {
      const rows = await queued();
      const leased = rows.filter((row) => row.leased);
      const extended = leased.filter(({ dueAt }) => dueAt.getTime() - bench.clock.nowMs() > CLAIM_LEASE_MS);
      return extended.length === CONCURRENCY && leased.length === CONCURRENCY;
    },
    { timeoutMs: 20_000, what: 'only the deliveries in flight to be leased' },
  );
  const attempts = (await queued()).reduce((sum, row) => sum + row.attempts, 0);
  expect([attempts, receiver.requests.length]).toEqual([CONCURRENCY, CONCURRENCY]);
});

test('an endpoint that asks for a pause gets nothing that was claimed before, and no attempt is counted', async () => {
  const { endpointId, answers } = await startWithHeldAnswers();
  const [first, ...others] = answers.splice(0);
  first!(503);
  await waitFor(async () => (await bench.attempts(endpointId)).length === 1, {
    timeoutMs: 20_000,
    what: 'the pause to be stored',
  });
  for (const answer of others) answer(200);
  await waitFor(async () => (await bench.attempts(endpointId)).length === CONCURRENCY, {
    timeoutMs: 20_000,
    what: 'all results to be stored',
  });
  await waitFor(async () => (await queued()).every(({ leased }) => !leased), {
    timeoutMs: 20_000,
    what: 'the claims to be given back',
  });
  const attempts = (await queued()).map((row) => row.attempts);
  expect([attempts.filter((count) => count === 1).length, attempts.length]).toEqual([
    1,
    DELIVERIES - CONCURRENCY + 1,
  ]);
  expect(receiver.requests).toHaveLength(CONCURRENCY);
});

test('a dispatcher that closes gives back what it claimed but did not send', async () => {
  const { endpointId, dispatcher, answers } = await startWithHeldAnswers();
  const closed = dispatcher.close();
  for (const answer of answers.splice(0)) answer(200);
  await closed;
  expect(receiver.requests).toHaveLength(CONCURRENCY);
  expect(await queued()).toEqual(
    Array(DELIVERIES - CONCURRENCY).fill(expect.objectContaining({ attempts: 0, leased: false })),
  );
  receiver.script(() => 200);
  start();
  await waitForStates(endpointId, Array(DELIVERIES).fill('delivered'));
  expect(receiver.requests).toHaveLength(DELIVERIES);
});

test('conversations of a backlog are each delivered in order, once', async () => {
  const { endpointId } = await bench.endpoint(tenantId, receiver.url);
  const count = 1500;
  const conversation = (n: number) => `C${n % 7}`;
  for (let from = 0; from < count; from += 500) {
    await bench.emit(
      ...Array.from({ length: 500 }, (_, i) => reply(tenantId, conversation(from + i), from + i)),
    );
  }
  start();
  await waitForStates(endpointId, Array(count).fill('delivered'));
  const numbers = receiver.requests.map(({ json }) => json.data.number as number);
  expect(numbers).toHaveLength(count);
  for (let key = 0; key < 7; key += 1) {
    const own = numbers.filter((n) => n % 7 === key);
    expect(own).toEqual([...own].sort((a, b) => a - b));
  }
});

test('a slow step before the claims of one endpoint leaves the other endpoints to the next dispatch', async () => {
  const endpoints: string[] = [];
  for (let n = 0; n < 3; n += 1) {
    const { endpointId } = await bench.endpoint(tenantId, receiver.url);
    endpoints.push(endpointId);
  }
  await bench.emit(reply(tenantId, null, 1));
  let isSlow = true;
  const decrypt: typeof bench.keyRing.decrypt = (...args) => {
    const endMs = performance.now() + (isSlow ? 150 : 0);
    while (performance.now() < endMs);
    return bench.keyRing.decrypt(...args);
  };
  const dispatch = async () => {
    const dispatched = await dispatchEndpoints(
      {
        pool,
        clock: bench.clock,
        nextId: bench.nextId,
        random: () => 0.5,
        keyRing: { ...bench.keyRing, decrypt },
        concurrency: CONCURRENCY,
        claimLease: new ClaimLease(CLAIM_LEASE_MS),
        leaseMs: LEASE_MS,
        ownTokens: `${bench.nextId()}-`,
      },
      endpoints.map((endpointId) => ({
        id: { tenantId, endpointId },
        attempts: [],
        unsent: [],
        slow: [],
        limit: CONCURRENCY,
        held: 0,
        ahead: 0,
        failing: false,
        readAhead: new ReadAhead(),
        isClaimed: () => false,
        holdExpired: false,
      })),
    );
    return dispatched.map((one) => ({ claimed: one!.deliveries.length, more: one!.more }));
  };
  expect(await dispatch()).toEqual([
    { claimed: 1, more: false },
    { claimed: 0, more: true },
    { claimed: 0, more: true },
  ]);
  isSlow = false;
  expect((await dispatch()).map(({ claimed }) => claimed)).toEqual([0, 1, 1]);
});
