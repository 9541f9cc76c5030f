import type { Clock } from '../../shared/clock.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import type { Logger } from '../../shared/logging.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { AllowRule } from '../../shared/webhooks/addresses.ts';
import type { Resolve } from '../../shared/webhooks/resolve.ts';

export interface DispatcherOptions {
  /** Needs at least two connections: one listens. */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly nextId: IdGenerator;
  readonly keyRing: KeyRing;
  /** Addresses permitted besides public ones over https. */
  readonly allow: readonly AllowRule[];
  /** Makes the time partitions of the webhook tables around this time; called when a row found none. */
  readonly ensurePartitions: (nowMs: number) => Promise<void>;
  /** Numbers from 0 to 1 for the jitter of retries. Default Math.random. */
  readonly random?: () => number;
  /** Default: DNS, then the operating system. */
  readonly resolve?: Resolve;
  /** Certificates to trust instead of the usual ones, PEM; for tests. */
  readonly ca?: string;
  /** Exchanges of one endpoint at once, over all dispatchers. Default 16. */
  readonly concurrency?: number;
  /** Exchanges of this dispatcher at once. Default 256. */
  readonly exchangesMax?: number;
  /** Milliseconds for a whole exchange. Default 15,000. */
  readonly deadlineMs?: number;
  /** Milliseconds after which a delivery without a result is sent again; longer than the deadline. Default 30,000. */
  readonly leaseMs?: number;
  /** Milliseconds between two looks for what is due, besides notifications. Default 1000. */
  readonly pollMs?: number;
}

export interface Dispatcher {
  /** Why deliveries are not found or recorded at the moment, in words; undefined when all is well. */
  problem(): string | undefined;
  /** Looks for due deliveries at once. */
  wake(): void;
  /** Claims nothing more, waits for the exchanges that run (their deadline bounds it), and records them. */
  close(): Promise<void>;
}
