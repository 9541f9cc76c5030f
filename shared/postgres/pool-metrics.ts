import { Gauge } from 'prom-client';
import { registry } from '../metrics/registry.ts';
import type { Pool } from './pool.ts';

const reported = new Map<string, Pool>();

new Gauge({
  name: 'sluice_database_pool_connections',
  help: 'Open connections to the database.',
  labelNames: ['pool', 'state'],
  registers: [registry],
  collect() {
    for (const [pool, { totalCount, idleCount }] of reported) {
      this.set({ pool, state: 'idle' }, idleCount);
      this.set({ pool, state: 'busy' }, totalCount - idleCount);
    }
  },
});

new Gauge({
  name: 'sluice_database_pool_connections_max',
  help: 'Maximum connections of the pool.',
  labelNames: ['pool'],
  registers: [registry],
  collect() {
    for (const [pool, { options }] of reported) this.set({ pool }, options.max);
  },
});

new Gauge({
  name: 'sluice_database_pool_waiting',
  help: 'Callers that wait for a connection, because all are busy.',
  labelNames: ['pool'],
  registers: [registry],
  collect() {
    for (const [pool, { waitingCount }] of reported) this.set({ pool }, waitingCount);
  },
});

/** Reports the connections of a pool. `name` is the value of the label `pool`. */
export function reportPool(name: string, pool: Pool): void {
  reported.set(name, pool);
}
