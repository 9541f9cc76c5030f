import { backoffMs } from '../../../shared/async.ts';
import type { Logger } from '../../../shared/logging.ts';
import type { Connection, Pool } from '../../../shared/postgres/pool.ts';
import { databaseTrouble } from '../../../shared/postgres/refusals.ts';
import { DELIVERIES_CHANNEL } from '../../sql/webhook-events.ts';

const BACKOFF = { minMs: 100, maxMs: 10_000 };

/**
 * Calls `onDeliveries` whenever deliveries were written, and after each connect, as notifications
 * may have been missed before. Holds one connection of the pool; reconnects with backoff until
 * closed.
 */
export class DeliveryListener {
  readonly #pool: Pool;
  readonly #logger: Logger;
  readonly #onDeliveries: () => void;
  #client: Connection | undefined;
  #connecting: Promise<void>;
  /** Consecutive connections that failed, or were lost before they listened. */
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(pool: Pool, logger: Logger, onDeliveries: () => void) {
    this.#pool = pool;
    this.#logger = logger;
    this.#onDeliveries = onDeliveries;
    this.#connecting = this.#connect();
  }

  /** Releases the connection and stops reconnecting. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#connecting;
    const client = this.#client;
    this.#client = undefined;
    discard(client);
  }

  async #connect(): Promise<void> {
    let client: Connection | undefined;
    try {
      client = await this.#pool.connect();
      if (this.#closed) {
        client.release();
        return;
      }
      this.#watch(client);
      await client.query(`listen ${DELIVERIES_CHANNEL}`);
      this.#failures = 0;
      this.#onDeliveries();
    } catch (error) {
      this.#onLost(client, error);
    }
  }

  #watch(client: Connection): void {
    this.#client = client;
    client.on('notification', this.#onDeliveries);
    client.on('error', (error) => this.#onLost(client, error));
    client.on('end', () => this.#onLost(client, new Error('the connection was closed')));
  }

  /** May be called several times for one connection. Without `client`, a connect failed. */
  #onLost(client: Connection | undefined, error: unknown): void {
    if (client !== undefined && client !== this.#client) return;
    this.#client = undefined;
    discard(client);
    if (this.#closed) return;
    this.#failures += 1;
    const retryMs = backoffMs(this.#failures, BACKOFF);
    this.#logger.warn(
      { reason: databaseTrouble(error), retryMs: Math.round(retryMs) },
      'webhook listener disconnected, reconnecting',
    );
    this.#timer = setTimeout(() => {
      this.#connecting = this.#connect();
    }, retryMs);
  }
}

function discard(client: Connection | undefined): void {
  if (!client) return;
  client.removeAllListeners('notification');
  client.release(true);
}
