import { backoffMs, retryUntilSuccess, sleep } from '../../../shared/async.ts';
import type { Logger } from '../../../shared/logging.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { databaseTrouble } from '../../../shared/postgres/refusals.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';
import { DELIVERIES_CHANNEL, endpointsOfPayload } from '../../sql/webhook-events.ts';

const BACKOFF = { minMs: 100, maxMs: 10_000 };

/** Called with the endpoints of new deliveries; undefined: any endpoints. */
export type OnDeliveries = (endpoints: readonly EndpointId[] | undefined) => void;

/**
 * Calls `onDeliveries` whenever deliveries were written. Also calls it after each connect, because
 * notifications may have been missed. Holds one connection of the pool; reconnects with backoff
 * until closed.
 */
export class DeliveryListener {
  readonly #pool: Pool;
  readonly #logger: Logger;
  readonly #onDeliveries: OnDeliveries;
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;

  constructor(pool: Pool, logger: Logger, onDeliveries: OnDeliveries) {
    this.#pool = pool;
    this.#logger = logger;
    this.#onDeliveries = onDeliveries;
    this.#running = this.#run();
  }

  /** Releases the connection and stops reconnecting. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const listening = await retryUntilSuccess(() => this.#listen(), {
        backoff: BACKOFF,
        signal,
        onFailure: (error) => this.#warn(error),
      });
      const error = await listening?.lost;
      if (signal.aborted) return;
      this.#warn(error);
      await sleep(backoffMs(1, BACKOFF), { signal });
    }
  }

  /**
   * Connects and listens. Resolves once the connection listens; `lost` resolves when the connection
   * ends or the listener closes.
   */
  async #listen(): Promise<{ readonly lost: Promise<unknown> }> {
    const { signal } = this.#closing;
    const client = await this.#pool.connect();
    let end: (reason: unknown) => void = () => undefined;
    const lost = new Promise((resolve) => {
      end = resolve;
    });
    const stop = () => end(undefined);
    void lost.then(() => {
      signal.removeEventListener('abort', stop);
      client.removeAllListeners('notification');
      client.release(true);
    });
    client.on('error', end);
    client.on('end', () => end(new Error('the connection was closed')));
    client.on('notification', ({ payload }) => this.#onDeliveries(endpointsOfPayload(payload)));
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    try {
      await client.query(`listen ${DELIVERIES_CHANNEL}`);
    } catch (error) {
      end(error);
      throw error;
    }
    this.#onDeliveries(undefined);
    return { lost };
  }

  #warn(error: unknown): void {
    this.#logger.warn({ reason: databaseTrouble(error) }, 'webhook listener disconnected, reconnecting');
  }
}
