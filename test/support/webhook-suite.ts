import { afterEach, beforeEach } from 'vitest';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { Dispatcher, DispatcherOptions } from '../../workers/webhooks/dispatcher.ts';
import { type Receiver, startReceiver } from './receiver.ts';
import { waitFor } from './wait.ts';
import { type AttemptRow, createWebhookBench } from './webhooks.ts';

const WAIT_MS = 20_000;
/** A transaction on several nodes takes longer. */
const CITUS_WAIT_MS = 60_000;

/** What a test of webhooks works with. */
export interface WebhookTest {
  readonly tenantId: string;
  readonly receiver: Receiver;
}

/**
 * Gives each test of the file a tenant and a receiver of its own. `defaults` are the options of the
 * dispatchers that a test starts. `prepare` runs before each test.
 */
export function useWebhookBench(
  pool: Pool,
  defaults: Partial<DispatcherOptions>,
  prepare: (test: WebhookTest) => void,
) {
  const bench = createWebhookBench(pool);
  const timeoutMs = pool.isCitus ? CITUS_WAIT_MS : WAIT_MS;
  let tenants = 0;
  let receiver: Receiver;
  let cleanUps: (() => Promise<unknown>)[] = [];

  beforeEach(async () => {
    tenants += 1;
    const tenantId = `tenant${tenants}`;
    bench.clock.reset();
    await bench.tenant(tenantId);
    receiver = await startReceiver({ eventsOfTest: true });
    prepare({ tenantId, receiver });
  });

  afterEach(async () => {
    await Promise.all([...cleanUps.map((cleanUp) => cleanUp()), receiver.close()]);
    cleanUps = [];
  });

  const states = async (endpointId: string): Promise<string[]> =>
    (await bench.deliveries(endpointId)).map(({ state }) => state);

  return {
    bench,
    states,
    /** Runs with the other clean-ups of the test, concurrently. */
    afterTest: (cleanUp: () => Promise<unknown>) => void cleanUps.push(cleanUp),
    /** Starts a dispatcher, which is closed after the test. */
    start(options: Partial<DispatcherOptions> = {}): Dispatcher {
      const dispatcher = bench.dispatcher({ ...defaults, ...options });
      cleanUps.push(() => dispatcher.close());
      return dispatcher;
    },
    /** Returns the numbers of the received events, in order. */
    numbers: (): unknown[] => receiver.requests.map(({ json }) => json.data.number),
    received: (count: number): Promise<unknown> =>
      waitFor(() => receiver.requests.length >= count, { timeoutMs, what: `${count} requests` }),
    waitForStates: (endpointId: string, wanted: readonly string[]): Promise<unknown> =>
      waitFor(async () => String(await states(endpointId)) === String(wanted), {
        timeoutMs,
        what: `deliveries ${wanted}`,
      }),
    /** Resolves with the attempts as soon as there are this many. */
    waitForAttempts: (endpointId: string, count: number): Promise<AttemptRow[]> =>
      waitFor(
        async () => {
          const attempts = await bench.attempts(endpointId);
          return attempts.length >= count ? attempts : undefined;
        },
        { timeoutMs, what: `${count} attempts` },
      ),
  };
}
