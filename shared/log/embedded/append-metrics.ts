import { Counter } from 'prom-client';
import { registry } from '../../metrics/registry.ts';
import { SQLSTATE, sqlStateOf } from '../../postgres/sqlstate.ts';

const failures = new Counter({
  name: 'sluice_embedded_log_append_failures_total',
  help: 'Attempts of `npm start` to append records to its log that failed, by reason: disk-full (the disk of its Postgres), or other. An attempt that may succeed later is repeated until the deadline of its requests.',
  labelNames: ['reason'],
  registers: [registry],
});
for (const reason of ['disk-full', 'other']) failures.inc({ reason }, 0);

/** Counts an attempt to append records that failed. */
export function countAppendFailure(error: unknown): void {
  failures.inc({ reason: sqlStateOf(error) === SQLSTATE.DISK_FULL ? 'disk-full' : 'other' });
}
