import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../shared/clock.ts';
import { errorMessage } from '../../shared/errors.ts';
import type { SendTarget } from '../send/gateway-client.ts';
import { AdminClient, type DemoEndpoints } from './endpoints.ts';
import { type DemoReceiver, type ReceivedCounts, startDemoReceiver } from './receiver.ts';

/** The endpoints of a run, and the webhooks that they received. */
export interface WebhooksReport extends ReceivedCounts {
  readonly goodId: string;
  readonly failingId: string;
}

const QUIET_MS = 1500;
const SETTLE_MAX_MS = 10_000;
const POLL_MS = 100;

/** The receiver and the endpoints of a run. */
export class DemoWebhooks {
  readonly endpoints: DemoEndpoints;
  readonly #admin: AdminClient;
  readonly #receiver: DemoReceiver;

  private constructor(admin: AdminClient, receiver: DemoReceiver, endpoints: DemoEndpoints) {
    this.#admin = admin;
    this.#receiver = receiver;
    this.endpoints = endpoints;
  }

  /** Starts the receiver and creates the endpoints. `admin` is the admin listener with the key. */
  static async start(admin: SendTarget, port: number, clock: Clock): Promise<DemoWebhooks> {
    const client = new AdminClient(admin);
    let endpoints: DemoEndpoints | undefined;
    const receiver = await startDemoReceiver({ port, clock, secret: () => endpoints?.secret });
    try {
      endpoints = await client.replaceEndpoints(receiver.port);
      return new DemoWebhooks(client, receiver, endpoints);
    } catch (error) {
      await receiver.close();
      throw error;
    }
  }

  /** Waits until no more webhooks arrive, or for 10 s. */
  async settle(signal: AbortSignal): Promise<void> {
    const received = () => this.#receiver.counts.valid + this.#receiver.counts.invalid;
    let [before, sinceMs] = [received(), performance.now()];
    for (let waitedMs = 0; waitedMs < SETTLE_MAX_MS && !signal.aborted; waitedMs += POLL_MS) {
      await delay(POLL_MS);
      if (received() !== before) [before, sinceMs] = [received(), performance.now()];
      else if (performance.now() - sinceMs > QUIET_MS) return;
    }
  }

  /** Pauses the endpoints. Returns the problem if they are not paused. */
  async pause(): Promise<string | undefined> {
    try {
      await this.#admin.pauseEndpoints(this.endpoints);
      return undefined;
    } catch (error) {
      const { goodId, failingId } = this.endpoints;
      const ids = `./sluice webhooks delete ${goodId} and ${failingId}, or run the demo again`;
      return `the endpoints could not be paused: ${errorMessage(error)}. Delete them later: ${ids}`;
    }
  }

  report(): WebhooksReport {
    const { goodId, failingId } = this.endpoints;
    return { goodId, failingId, ...this.#receiver.counts };
  }

  close(): Promise<void> {
    return this.#receiver.close();
  }
}
