import type { Clock } from '../shared/clock.ts';
import { createCallerKeys } from '../shared/http/api-key-auth/caller-keys.ts';
import { createHealth, type Health } from '../shared/http/health.ts';
import { reportHealth } from '../shared/http/health-metrics.ts';
import { type ServedApp, serveApp } from '../shared/http/listener/serve-app.ts';
import type { IdGenerator } from '../shared/ids.ts';
import type { KeyRing } from '../shared/keyring/keyring.ts';
import type { Logger } from '../shared/logging.ts';
import type { Pool } from '../shared/postgres/pool.ts';
import { databaseTrouble } from '../shared/postgres/refusals.ts';
import { probeWritable } from '../shared/postgres/server-facts.ts';
import type { AllowRule } from '../shared/webhooks/addresses.ts';
import { buildAdminApp } from './app.ts';

export interface AdminOptions {
  readonly pool: Pool;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
  /** Addresses that endpoints may have in addition to public https ones. */
  readonly allow: readonly AllowRule[];
  /** Prefix of the names of topics. */
  readonly topicPrefix: string;
  /** Maximum webhook endpoints of a tenant. */
  readonly endpointsMax: number;
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** Maximum requests per second of one tenant for one scope. Default 100. */
  readonly requestsPerSecond?: number;
  /** Maximum API keys that a tenant's keys may create in 24 hours. Default 1000. */
  readonly keysPerDayMax?: number;
  /** Origins whose scripts may use portal tokens. Default: none. */
  readonly origins?: readonly string[];
  /**
   * Milliseconds of normal service after `stop` was called, so that load balancers notice the
   * shutdown.
   */
  readonly drainDelayMs: number;
  /**
   * Milliseconds that a connection may be idle after a request with a valid key. Default 620,000.
   */
  readonly keepAliveMs?: number;
}

export type Admin = ServedApp;

const PROBE_EVERY_MS = 2000;
const PROBE_DEADLINE_MS = 2000;

/**
 * Starts the admin listener; resolves when the listener accepts connections. The caller closes the
 * pool after `stop`. Rejects with AppError LISTEN_FAILED.
 */
export async function startAdmin(options: AdminOptions): Promise<Admin> {
  const { pool, clock, logger, nextId, keepAliveMs } = options;
  const health = createHealth();
  reportHealth('admin', health);
  // Keys are not cached, because a revoked key must not create other keys. A cache would gain
  // nothing, since every operation of this listener needs the database.
  const keys = createCallerKeys({ pool, clock, logger, keysMax: 0 });
  const stopProbing = probeDatabase(pool, health, logger);
  return await serveApp({
    app: buildAdminApp({ ...options, keys: keys.cache, health }),
    health,
    logger,
    name: 'admin listener',
    host: options.host,
    port: options.port,
    portSetting: 'ADMIN_PORT',
    listener: 'admin',
    nextId,
    drainDelayMs: options.drainDelayMs,
    ...(keepAliveMs === undefined ? {} : { keepAliveMs }),
    async close() {
      stopProbing();
      await keys.close();
    },
  });
}

/**
 * Reports regularly to `health` whether the database can be written. Returns a function that stops the
 * reports.
 */
function probeDatabase(pool: Pool, health: Health, logger: Logger): () => void {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let before: string | undefined = 'not reached yet';
  health.setReady('database', before);
  async function probe(): Promise<void> {
    const problem = await probeWritable(pool, PROBE_DEADLINE_MS).then(() => undefined, databaseTrouble);
    if (stopped) return;
    health.setReady('database', problem);
    if (problem !== before) {
      if (problem === undefined) logger.info('database available');
      else logger.warn({ problem }, 'database unavailable');
      before = problem;
    }
    timer = setTimeout(probe, PROBE_EVERY_MS);
    timer.unref();
  }
  void probe();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
