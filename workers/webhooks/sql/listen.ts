import type { Logger } from '../../../shared/logging.ts';
import type { Pool, PoolClient } from '../../../shared/postgres/pool.ts';
import { databaseTrouble } from '../../../shared/postgres/refusals.ts';
import { DELIVERIES_CHANNEL } from '../../sql/insert-signals.ts';

export interface DeliveryListener {
  /** Gives the connection back and stops connecting. */
  close(): Promise<void>;
}

const BACKOFF_FIRST_MS = 100;
const BACKOFF_MAX_MS = 10_000;

/**
 * Calls `onDeliveries` whenever some were written, and once after each connect, as what happened before is unknown.
 * Holds one connection of the pool; when it is lost, a new one is made with backoff for as long as it takes.
 */
export function listenForDeliveries(pool: Pool, logger: Logger, onDeliveries: () => void): DeliveryListener {
  let closed = false;
  let client: PoolClient | undefined;
  let timer: NodeJS.Timeout | undefined;
  let backoffMs = BACKOFF_FIRST_MS;
  let connecting: Promise<void> = Promise.resolve();

  async function connect(): Promise<void> {
    let connected: PoolClient | undefined;
    try {
      connected = await pool.connect();
      if (closed) {
        connected.release();
        return;
      }
      watch(connected);
      await connected.query(`listen ${DELIVERIES_CHANNEL}`);
      backoffMs = BACKOFF_FIRST_MS;
      onDeliveries();
    } catch (error) {
      lose(connected, error);
    }
  }

  function watch(connected: PoolClient): void {
    client = connected;
    connected.on('notification', onDeliveries);
    connected.on('error', (error) => lose(connected, error));
    connected.on('end', () => lose(connected, new Error('the connection was closed')));
  }

  /** May be told several times about one connection; without one it is a connect that failed. */
  function lose(lost: PoolClient | undefined, error: unknown): void {
    if (lost !== undefined && lost !== client) return;
    client = undefined;
    discard(lost);
    if (closed) return;
    logger.warn(
      { reason: databaseTrouble(error), backoffMs },
      'not listening for webhook deliveries; polling finds them meanwhile',
    );
    timer = setTimeout(() => {
      connecting = connect();
    }, backoffMs);
    backoffMs = Math.min(backoffMs * 2, BACKOFF_MAX_MS);
  }

  function discard(connected: PoolClient | undefined): void {
    if (!connected) return;
    connected.removeAllListeners('notification');
    connected.release(true);
  }

  connecting = connect();
  return {
    async close() {
      closed = true;
      clearTimeout(timer);
      await connecting;
      const last = client;
      client = undefined;
      discard(last);
    },
  };
}
