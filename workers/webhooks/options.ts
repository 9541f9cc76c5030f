import type { Clock } from '../../shared/clock.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import type { Logger } from '../../shared/logging.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { AllowRule } from '../../shared/webhooks/addresses.ts';
import { createAgent, type WebhookAgent } from '../../shared/webhooks/connect.ts';
import { createResolve, type Resolve } from '../../shared/webhooks/resolve.ts';
import { ClaimLease } from './claim-lease.ts';
import type { DispatchContext } from './dispatch.ts';

export interface DispatcherOptions {
  /**
   * The pool, with at least two connections, since one listens for notifications unless `directUrl`
   * is set.
   */
  readonly pool: Pool;
  /** Address of the pool's database without a pooler, to listen for notifications. */
  readonly directUrl?: string | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly nextId: IdGenerator;
  readonly keyRing: KeyRing;
  /** Addresses that are permitted in addition to public ones over https. */
  readonly allow: readonly AllowRule[];
  /**
   * Creates the time partitions of the webhook tables for this time; called if a row's partition is
   * missing.
   */
  readonly ensurePartitions: (nowMs: number) => Promise<void>;
  /**
   * Returns numbers from 0 (inclusive) to 1 (exclusive) for the jitter of retries. Default
   * Math.random.
   */
  readonly random?: () => number;
  /** Resolves host names. Default: by DNS, then by the operating system. */
  readonly resolve?: Resolve;
  /** Certificates to trust instead of the default ones, as PEM; used by tests. */
  readonly ca?: string;
  /** Concurrent exchanges of one endpoint, in all dispatchers together. Default 16. */
  readonly concurrency?: number;
  /** Concurrent exchanges of this dispatcher. Default 256. */
  readonly exchangesMax?: number;
  /** Milliseconds for a whole exchange. Default 15,000. */
  readonly deadlineMs?: number;
  /**
   * The lease of a claimed delivery in milliseconds, longer while claims take longer than a second.
   * The delivery is sent again after it if this dispatcher dies. Default 5000.
   */
  readonly claimLeaseMs?: number;
  /**
   * The lease in milliseconds of a delivery that has been in flight for a second. Must be longer
   * than the deadline. Default 30,000.
   */
  readonly leaseMs?: number;
  /**
   * Milliseconds between two polls for due deliveries, in addition to notifications. Default 1000.
   */
  readonly pollMs?: number;
}

/** Returns the context of dispatches, with the defaults of the options. */
export function contextOf(options: DispatcherOptions, clock: Clock): DispatchContext {
  const { concurrency = 16, claimLeaseMs = 5000, leaseMs = 30_000, random = Math.random } = options;
  const ownTokens = `${options.nextId()}-`;
  const claimLease = new ClaimLease(claimLeaseMs);
  return { ...options, clock, concurrency, claimLease, leaseMs, random, ownTokens };
}

/** Returns the agent that connects to receivers. */
export function agentOf({ allow, resolve = createResolve(), ca }: DispatcherOptions): WebhookAgent {
  return createAgent({ allow, resolve, ...(ca === undefined ? {} : { ca }) });
}

export interface Dispatcher {
  /**
   * Returns why deliveries cannot be found, claimed or recorded, as text for operators; undefined
   * while they can.
   */
  problem(): string | undefined;
  /**
   * Returns why deliveries are found by polling only, as text for operators; undefined while
   * notifications arrive.
   */
  note(): string | undefined;
  /**
   * Stops claiming, waits for exchanges in flight (until their deadline at most), and records their
   * results.
   */
  close(): Promise<void>;
}
