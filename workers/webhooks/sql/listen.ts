import { backoffMs, retryUntilSuccess, sleep } from '../../../shared/async.ts';
import { AppError, errorCode, errorMessage } from '../../../shared/errors.ts';
import type { Logger } from '../../../shared/logging.ts';
import {
  hearsNotifications,
  type ListeningConnection,
  type ListeningPlace,
  openListening,
  unheardAdvice,
} from '../../../shared/postgres/notifications.ts';
import { databaseTrouble } from '../../../shared/postgres/refusals.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';
import { DELIVERIES_CHANNEL, endpointsOfPayload } from '../../../shared/postgres/webhook-notifications.ts';

const BACKOFF = { minMs: 100, maxMs: 10_000 };
/** Milliseconds until a connection without notifications is tried again. */
const UNHEARD_PAUSE_MS = 60_000;
/** AppError code of a connection on which no notification arrives. */
const UNHEARD = 'NOTIFICATIONS_UNHEARD';

/** Called with the endpoints of new deliveries; undefined: any endpoints. */
export type OnDeliveries = (endpoints: readonly EndpointId[] | undefined) => void;

export interface ListenOptions extends ListeningPlace {
  readonly logger: Logger;
  readonly onDeliveries: OnDeliveries;
}

/**
 * Calls `onDeliveries` whenever deliveries were written. Also calls it after each connect, because
 * notifications may have been missed. Holds one connection; reconnects with backoff until closed.
 */
export class DeliveryListener {
  readonly #options: ListenOptions;
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  #problem: string | undefined;
  /** Ends the connection. */
  #end: (reason: unknown) => void = () => undefined;

  constructor(options: ListenOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** Returns why no notifications arrive; undefined while they do. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Replaces the connection, if there is one. */
  reconnect(reason: Error): void {
    this.#end(reason);
  }

  /** Ends the connection and stops reconnecting. */
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
        onFailure: (error) => this.#report(error),
      });
      const error = await listening?.lost;
      if (signal.aborted) return;
      this.#report(error);
      await sleep(errorCode(error) === UNHEARD ? UNHEARD_PAUSE_MS : backoffMs(1, BACKOFF), { signal });
    }
  }

  /**
   * Connects, tests the connection, and listens. Resolves once the connection listens, or has failed
   * the test; `lost` resolves when the connection ends or the listener closes.
   */
  async #listen(): Promise<{ readonly lost: Promise<unknown> }> {
    const { signal } = this.#closing;
    const { connection, close } = await openListening(this.#options);
    const lost = new Promise((resolve) => {
      this.#end = resolve;
    });
    const end = this.#end;
    const stop = () => end(undefined);
    void lost.then(() => {
      signal.removeEventListener('abort', stop);
      connection.removeAllListeners('notification');
      close();
    });
    connection.on('error', end);
    connection.on('end', () => end(new Error('the connection was closed')));
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    try {
      if (await hearsNotifications(connection, this.#options.pool)) await this.#receive(connection);
      else end(new AppError(UNHEARD, unheardAdvice(this.#options)));
    } catch (error) {
      end(error);
      throw error;
    }
    return { lost };
  }

  async #receive(connection: ListeningConnection): Promise<void> {
    const { onDeliveries } = this.#options;
    connection.on('notification', ({ payload }) => onDeliveries(endpointsOfPayload(payload)));
    await connection.query(`listen ${DELIVERIES_CHANNEL}`);
    this.#problem = undefined;
    onDeliveries(undefined);
  }

  /** Logs each problem once. */
  #report(error: unknown): void {
    const reason = errorCode(error) === UNHEARD ? errorMessage(error) : this.#named(databaseTrouble(error));
    const problem = `webhooks are found by polling, up to 1 s later: ${reason}`;
    if (problem !== this.#problem)
      this.#options.logger.warn({ reason }, 'webhook notifications not received');
    this.#problem = problem;
  }

  /** Returns the text with the setting whose address is used. */
  #named(text: string): string {
    return this.#options.directUrl === undefined
      ? text
      : text.replaceAll('DATABASE_URL', 'DATABASE_DIRECT_URL');
  }
}
