import type { Pool } from '../../shared/postgres/pool.ts';
import { databaseGauge } from '../database-gauge.ts';
import { countEndpoints, countQueued, countRunningRecoveries, oldestDueAtMs } from './sql/totals.ts';

/** Deliveries that are counted at most. */
const WAITING_MAX = 100_000;

const gauges = [
  databaseGauge({
    name: 'sluice_webhook_waiting',
    help: `Deliveries of all endpoints that have not ended: due, in flight, or waiting for a retry, for a pause or for an earlier one of their conversation. Counted up to ${WAITING_MAX}. Read from the database at most every 15 s; every worker reports the same, so use max().`,
    read: async (db) => [{ labels: {}, value: await countQueued(db, WAITING_MAX) }],
  }),
  databaseGauge({
    name: 'sluice_webhook_oldest_waiting_seconds',
    help: 'Seconds for which the delivery that is due longest has been due, 0 if none is. Only of endpoints that are enabled and not paused, have no rate, and answered the last attempt: if it grows, dispatchers do not keep up. Read from the database at most every 15 s; every worker reports the same, so use max().',
    async read(db, nowMs) {
      const dueAtMs = await oldestDueAtMs(db, nowMs);
      return [{ labels: {}, value: dueAtMs === undefined ? 0 : (nowMs - dueAtMs) / 1000 }];
    },
  }),
  databaseGauge({
    name: 'sluice_webhook_endpoints',
    help: 'Webhook endpoints by state: healthy, failing (the last attempt failed), paused (by its owner, or at its own request) or disabled (by its owner, after an answer 410, or after 5 days of failures). Read from the database at most every 15 s; every worker reports the same, so use max().',
    labelNames: ['state'],
    read: async (db, nowMs) =>
      Object.entries(await countEndpoints(db, nowMs)).map(([state, value]) => ({ labels: { state }, value })),
  }),
  databaseGauge({
    name: 'sluice_webhook_recoveries_running',
    help: 'Recoveries of webhook endpoints that are running, or wait for their endpoint. Read from the database at most every 15 s; every worker reports the same, so use max().',
    read: async (db) => [{ labels: {}, value: await countRunningRecoveries(db) }],
  }),
];

/** Reports the queue and the endpoints when they are scraped. Returns the function that ends this. */
export function reportQueue(pool: Pool, nowMs: () => number): () => void {
  const ends = gauges.map((start) => start(pool, nowMs));
  return () => {
    for (const end of ends) end();
  };
}
