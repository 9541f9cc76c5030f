import type { Clock } from '../../shared/clock.ts';
import type { Health } from '../../shared/http/health.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import type { Logger } from '../../shared/logging.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import type { AllowRule } from '../../shared/webhooks/addresses.ts';
import { type Dispatcher, startDispatcher } from './dispatcher.ts';
import { watchKeys } from './key-watch.ts';
import { reportQueue } from './queue-metrics.ts';
import { startRecoveries } from './recoveries.ts';

export interface WebhooksDeps {
  /** See DispatcherOptions. */
  readonly pool: Pool;
  readonly directUrl?: string | undefined;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
  readonly health: Health;
  readonly keyRing: KeyRing;
  readonly allow: readonly AllowRule[];
}

const TABLES = ['webhook_messages', 'webhook_deliveries', 'webhook_attempts'] as const;
const WEEK_MS = 7 * 86_400_000;

/** Starts the webhook worker. Reports to `health` as `webhooks`. */
export function startWebhooks({ health, ...deps }: WebhooksDeps): Dispatcher {
  const dispatcher = startDispatcher({
    ...deps,
    async ensurePartitions(nowMs) {
      for (const table of TABLES) await ensureTimePartitions(deps.pool, table, nowMs, nowMs + WEEK_MS);
    },
  });
  health.watchReady('webhooks', () => dispatcher.problem());
  health.watchNote('webhooks', () => dispatcher.note());
  const keys = watchKeys({ ...deps, health });
  const recoveries = startRecoveries(deps);
  const stopReporting = reportQueue(deps.pool, () => deps.clock.nowMs());
  return {
    problem: () => dispatcher.problem(),
    note: () => dispatcher.note(),
    async close() {
      stopReporting();
      keys.close();
      await recoveries.close();
      await dispatcher.close();
    },
  };
}
