import {
  batchFailures,
  batchStages,
  lagSeconds,
  newDeadLetters,
  openDeadLetters,
  pool,
  processes,
  readFailures,
  roundTrip,
  stalled,
} from './common.ts';
import { type Dashboard, quantile, rate } from './dashboard.ts';

/** Shows how workers store records. */
export const workers: Dashboard = {
  uid: 'sluice-workers',
  title: 'Sluice: workers',
  description: 'How far records are stored, what a batch does with its time, and what could not be stored.',
  rows: [
    {
      title: 'Progress',
      panels: [
        lagSeconds,
        {
          title: 'Records that are not stored yet',
          description:
            'Sum over the workers. Growth means that more is accepted than stored: look at the time of a batch below.',
          kind: 'lines',
          unit: 'short',
          queries: [{ expr: 'sum by (topic) (sluice_worker_lag_records)', legend: '{{topic}}' }],
        },
        stalled,
        {
          title: 'Partitions that are read',
          description:
            'Sum over the workers. Less than the partitions of the topic: no worker reads the others.',
          kind: 'lines',
          unit: 'short',
          queries: [
            { expr: 'sum by (topic) (sluice_worker_partitions{state="reading"})', legend: '{{topic}}' },
          ],
        },
      ],
    },
    {
      title: 'Records',
      panels: [
        {
          title: 'Records by result',
          description:
            'Per second. repeated: callers send records again. conflict and dead-letter: could not be stored. skipped: read again after a restart, or erased.',
          kind: 'lines',
          unit: 'short',
          queries: [{ expr: rate('sluice_worker_records_total', ['result']), legend: '{{result}}' }],
        },
        {
          title: 'Stored rows',
          description: 'Per second and topic: records, dead letters and deliveries of webhooks.',
          kind: 'lines',
          unit: 'short',
          queries: [{ expr: rate('sluice_worker_rows_total', ['topic']), legend: '{{topic}}' }],
        },
        {
          title: 'Records of a batch',
          description:
            'Average per transaction. It grows with the lag. 1 over a long time: a worker isolates a record.',
          kind: 'lines',
          unit: 'short',
          queries: [
            {
              expr: `${rate('sluice_worker_batch_records_sum', ['topic'])} / ${rate('sluice_worker_batch_records_count', ['topic'])}`,
              legend: '{{topic}}',
            },
          ],
        },
      ],
    },
    {
      title: 'Batches',
      panels: [
        batchStages,
        {
          title: 'Time of a batch by topic',
          description:
            '95 % of the stage `write` finish in this time. High for one topic only: its tables or indexes.',
          kind: 'lines',
          unit: 's',
          threshold: { value: 1 },
          queries: [
            {
              expr: quantile(0.95, 'sluice_worker_batch_duration_seconds', ['topic'], '{stage="write"}'),
              legend: '{{topic}}',
            },
          ],
        },
        batchFailures,
      ],
    },
    { title: 'Dead letters', panels: [newDeadLetters, openDeadLetters] },
    {
      title: 'The way to the database',
      panels: [
        {
          title: 'Busy connections',
          description:
            'Share of the pool. 1 over a long time, and work that waits: the database is slow, or the pool too small.',
          kind: 'lines',
          unit: 'percentunit',
          max: 1,
          queries: [
            {
              expr: 'max by (instance, pool) (sum by (instance, pool) (sluice_database_pool_connections{state="busy"}) / sum by (instance, pool) (sluice_database_pool_connections_max))',
              legend: '{{instance}} {{pool}}',
            },
          ],
        },
        pool,
        roundTrip,
        readFailures,
      ],
    },
    processes('worker|embedded'),
  ],
};
