import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../shared/clock.ts';
import { createCallerKeys } from '../shared/http/api-key-auth/caller-keys.ts';
import { createHealth, type Health } from '../shared/http/health.ts';
import { listen } from '../shared/http/listener/serve.ts';
import type { IdGenerator } from '../shared/ids.ts';
import type { KeyRing } from '../shared/keyring/keyring.ts';
import type { Logger } from '../shared/logging.ts';
import type { Pool } from '../shared/postgres/pool.ts';
import { queryWithDeadline } from '../shared/postgres/query-with-deadline.ts';
import { databaseTrouble } from '../shared/postgres/refusals.ts';
import type { AllowRule } from '../shared/webhooks/addresses.ts';
import { buildAdminApp } from './app.ts';

export interface AdminOptions {
  readonly pool: Pool;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
  /** Addresses that endpoints may have besides public https ones. */
  readonly allow: readonly AllowRule[];
  /** Webhook endpoints that a tenant may have. */
  readonly endpointsMax: number;
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Requests per second of one tenant that need one scope. Default 100. */
  readonly requestsPerSecond?: number;
  /** Keys that a tenant's keys may make in 24 hours. Default 1000. */
  readonly keysPerDayMax?: number;
  /** Milliseconds of normal service after `stop` was called. */
  readonly drainDelayMs: number;
  /** Milliseconds that a connection which has shown a valid key may be idle. Default: as the listener has it. */
  readonly keepAliveMs?: number;
}

export interface Admin {
  readonly host: string;
  readonly port: number;
  readonly health: Health;
  /** Not ready at once, normal service for the drain delay, then answers what is under way. */
  stop(): Promise<void>;
}

const PROBE_EVERY_MS = 2000;
const PROBE_DEADLINE_MS = 2000;

/** Starts the admin listener; the pool stays the caller's to close. Rejects with AppError LISTEN_FAILED. */
export async function startAdmin(options: AdminOptions): Promise<Admin> {
  const { pool, clock, logger, host, port, nextId } = options;
  const health = createHealth();
  // None is cached: nothing works here without the database anyway, and who lost a key must not go on making others.
  const keys = createCallerKeys({ pool, clock, logger, keysMax: 0 });
  const app = buildAdminApp({ ...options, keys, health });
  const { keepAliveMs } = options;
  const server = await listen({
    fetch: app.fetch,
    host,
    port,
    portSetting: 'ADMIN_PORT',
    nextId,
    ...(keepAliveMs === undefined ? {} : { keepAliveMs }),
  }).catch(async (error) => {
    await keys.close();
    throw error;
  });
  const stopProbing = probeDatabase(pool, health, logger);
  logger.info({ host: server.host, port: server.port }, 'the admin listener is up');
  return {
    host: server.host,
    port: server.port,
    health,
    async stop() {
      health.setReady('stopping', 'the process is about to end');
      server.startDraining();
      await delay(options.drainDelayMs);
      await server.close();
      stopProbing();
      await keys.close();
    },
  };
}

/** Nothing works here without the database, so readiness follows it. */
function probeDatabase(pool: Pool, health: Health, logger: Logger): () => void {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let before: string | undefined = 'not reached yet';
  health.setReady('database', before);
  async function probe(): Promise<void> {
    const problem = await queryWithDeadline(pool, PROBE_DEADLINE_MS, 'select 1', []).then(
      () => undefined,
      databaseTrouble,
    );
    if (stopped) return;
    health.setReady('database', problem);
    if (problem !== before) {
      if (problem === undefined) logger.info('the database answers');
      else logger.warn({ problem }, 'the database cannot be asked: requests get 503-01');
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
