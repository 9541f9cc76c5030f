import { type Panel, quantile, RATE, type Row, rate } from './dashboard.ts';

/** Panels that several dashboards show. */

export const publishFailures: Panel = {
  title: 'Records that the event log did not take',
  description:
    'Records per second whose callers got 503-01. timeout or unavailable: brokers are down or their disk is full (npm start: Postgres). breaker-open: refused without trying, until the log answers. queue-full: the log is too slow for the load, or one tenant sends more than its share. With npm start also the attempts that failed: disk-full is the disk of Postgres.',
  kind: 'lines',
  unit: 'short',
  queries: [
    { expr: rate('sluice_publish_failures_total', ['reason']), legend: '{{reason}}' },
    {
      expr: rate('sluice_embedded_log_append_failures_total', ['reason']),
      legend: 'npm start, attempts: {{reason}}',
    },
  ],
};

export const breaker: Panel = {
  title: 'Gateway refuses records',
  description:
    'Red while the circuit breaker is not closed: the event log does not answer or accepts nothing, and callers get 503-01. It closes by itself.',
  kind: 'states',
  unit: 'short',
  queries: [
    { expr: 'max by (instance) (sluice_publish_breaker_state{state!="closed"})', legend: '{{instance}}' },
  ],
};

export const publishDuration: Panel = {
  title: 'Time until the event log acknowledges',
  description:
    'Callers wait as long. Usually milliseconds; at 5 s (SLUICE_PUBLISH_DEADLINE_MS) they get 503-01. High: disk or network of the brokers, with npm start Postgres, or a gateway whose event loop is busy.',
  kind: 'lines',
  unit: 's',
  threshold: { value: 1 },
  queries: [
    { expr: quantile(0.5, 'sluice_publish_duration_seconds', []), legend: 'median' },
    { expr: quantile(0.99, 'sluice_publish_duration_seconds', ['topic']), legend: '99 % {{topic}}' },
  ],
};

export const brokers: Panel = {
  title: 'Brokers of Kafka',
  description:
    'Partitions without copies: those that have no leader, or fewer copies than they should. Above 0 a broker is down or lags, or its disk is full. Brokers 0: none answers the gateway, and the partitions are unknown. Absent with npm start.',
  kind: 'lines',
  unit: 'short',
  queries: [
    { expr: 'min(sluice_kafka_brokers)', legend: 'brokers' },
    {
      expr: 'sum(max by (topic) (sluice_kafka_partitions_missing_copies))',
      legend: 'partitions without copies',
    },
  ],
};

export const lagSeconds: Panel = {
  title: 'Age of the oldest record that is not stored',
  description:
    'Rows, reports and webhooks are late by as much. Usually below 1 s. High for all topics: the database or too few workers. High for one topic: its records. Nothing is lost within 7 days.',
  kind: 'lines',
  unit: 's',
  threshold: { value: 300 },
  queries: [{ expr: 'max by (topic) (sluice_worker_lag_seconds)', legend: '{{topic}}' }],
};

export const stalled: Panel = {
  title: 'Partitions that make no progress',
  description:
    'Above 0 for all topics: the database if batches fail, otherwise the brokers. Above 0 for one topic: one record blocks its partition, or the log was replaced. /health/ready of the worker names partition, offset and reason.',
  kind: 'lines',
  unit: 'short',
  queries: [{ expr: 'sum by (topic) (sluice_worker_partitions{state="stalled"})', legend: '{{topic}}' }],
};

export const batchStages: Panel = {
  title: 'Time of a batch in the database',
  description:
    '95 % of the batches of workers finish each stage in this time. Batches that do not end are missing. Usually below 0.1 s. lock: others hold locks. deduplicate, write, commit: Postgres, its disk, or the network to it is slow (the dashboard Workers shows the round trip). slot: waits for the other stages.',
  kind: 'lines',
  unit: 's',
  threshold: { value: 1 },
  queries: [{ expr: quantile(0.95, 'sluice_worker_batch_duration_seconds', ['stage']), legend: '{{stage}}' }],
};

export const batchFailures: Panel = {
  title: 'Batches that failed',
  description:
    'Per second, by reason. Workers retry. disk-full: free the disk of Postgres. unavailable: Postgres is down. refused: role, password, right, or a server that only reads. lock, timeout, connections: Postgres is busy. record: a record that becomes a dead letter.',
  kind: 'lines',
  unit: 'short',
  queries: [{ expr: rate('sluice_worker_batch_failures_total', ['reason']), legend: '{{reason}}' }],
};

export const pool: Panel = {
  title: 'Work that waits for a connection to the database',
  description:
    'Requests and batches that wait. More than short bursts: the database is slow, or SLUICE_DATABASE_CONNECTIONS is too low for the load.',
  kind: 'lines',
  unit: 'short',
  queries: [
    {
      expr: 'max by (instance, pool) (sluice_database_pool_waiting)',
      legend: 'waiting {{instance}} {{pool}}',
    },
  ],
};

export const roundTrip: Panel = {
  title: 'Round trip to the database',
  description:
    'Median time of a COMMIT that has written nothing, by worker. Usually below 5 ms. Higher: the network, a pooler, or a Postgres without CPU, and each batch needs several. As usual while batches are slow: the disk or locks of Postgres.',
  kind: 'lines',
  unit: 's',
  queries: [
    {
      expr: quantile(0.5, 'sluice_database_round_trip_seconds', ['instance']),
      legend: '{{instance}}',
    },
  ],
};

export const readFailures: Panel = {
  title: 'Gauges that could not be read',
  description:
    'Per minute. The gauge is absent meanwhile: the database is down, or needs more than 2 s for the read.',
  kind: 'lines',
  unit: 'short',
  queries: [{ expr: `60 * ${rate('sluice_metrics_read_failures_total', ['metric'])}`, legend: '{{metric}}' }],
};

export const newDeadLetters: Panel = {
  title: 'New dead letters',
  description:
    'Accepted records that could not be stored, per minute and reason. Any is worth a look: `sluice dead-letters list`. crash: the record ended workers. refused, invalid: its values. conflict: another record has its id.',
  kind: 'lines',
  unit: 'short',
  queries: [{ expr: `60 * ${rate('sluice_dead_letters_total', ['reason'])}`, legend: '{{reason}}' }],
};

export const openDeadLetters: Panel = {
  title: 'Open dead letters',
  description: 'Neither replayed nor dropped. They are deleted after 30 days, those of credentials after 7.',
  kind: 'lines',
  unit: 'short',
  queries: [
    { expr: 'sum by (reason) (max by (topic, reason) (sluice_dead_letters_open))', legend: '{{reason}}' },
  ],
};

export const failedShare: Panel = {
  title: 'Attempts that fail',
  description:
    'Share of all attempts to send webhooks. Above one half for long: one busy endpoint that is dead, or your network. Of many endpoints: look at DNS, proxy and firewall first.',
  kind: 'lines',
  unit: 'percentunit',
  max: 1,
  threshold: { value: 0.5 },
  queries: [
    {
      expr: `sum(rate(sluice_webhook_attempts_total{result="failed"}${RATE})) / sum(rate(sluice_webhook_attempts_total${RATE}))`,
      legend: 'failed',
    },
  ],
};

export const waitingWebhooks: Panel = {
  title: 'Webhooks that wait',
  description:
    'Due, in flight, or waiting for a retry, for a pause or for an earlier one of their conversation. Counted up to 100,000. Growth: an endpoint fails, is slow or is paused, or the workers are too few.',
  kind: 'lines',
  unit: 'short',
  queries: [{ expr: 'max(sluice_webhook_waiting)', legend: 'waiting' }],
};

export const failedAttempts: Panel = {
  title: 'Failed attempts to send webhooks',
  description:
    'Per second, by cause. connect, dns, tls, timeout: the receiver is down, or your network. status: the receiver answers with an error. address: the URL may not be dialled. sender: a key is missing from the key ring. All are retried.',
  kind: 'lines',
  unit: 'short',
  queries: [
    { expr: rate('sluice_webhook_attempts_total', ['class'], '{result="failed"}'), legend: '{{class}}' },
  ],
};

export const endpoints: Panel = {
  title: 'Webhook endpoints that get nothing',
  description:
    'failing: the last attempt failed; `sluice webhooks list` names them. disabled: after 5 days of failures, an answer 410, or by the owner. paused: by the owner, or at the receiver’s request.',
  kind: 'lines',
  unit: 'short',
  queries: [{ expr: 'max by (state) (sluice_webhook_endpoints{state!="healthy"})', legend: '{{state}}' }],
};

export const oldestWebhook: Panel = {
  title: 'Time that a due webhook of a healthy endpoint waits',
  description:
    'Usually below 1 s. High: no worker sends webhooks, they are too few, or the database is slow. Endpoints that fail, are paused or have a rate do not count.',
  kind: 'lines',
  unit: 's',
  threshold: { value: 60 },
  queries: [{ expr: 'max(sluice_webhook_oldest_waiting_seconds)', legend: 'oldest' }],
};

/** Returns the row about the processes that run these parts. */
export function processes(parts: string): Row {
  const ofParts = ` * on (job, instance) group_left (part) sluice_build_info{part=~"${parts}"}`;
  const legend = '{{part}} {{instance}}';
  return {
    title: 'Processes',
    panels: [
      {
        title: 'CPU',
        description: 'Cores in use. A process uses little more than 1: near 1, run more processes.',
        kind: 'lines',
        unit: 'short',
        queries: [{ expr: `rate(process_cpu_seconds_total${RATE})${ofParts}`, legend }],
      },
      {
        title: 'Event loop delay',
        description:
          '99 % of the delays of the event loop were shorter. Requests wait as long. High: CPU of the process or of the machine, or garbage collection.',
        kind: 'lines',
        unit: 's',
        threshold: { value: 0.5 },
        queries: [{ expr: `nodejs_eventloop_lag_p99_seconds${ofParts}`, legend }],
      },
      {
        title: 'Memory',
        description:
          'Resident memory. Steady growth over days is a leak; near the limit of the container the process is killed.',
        kind: 'lines',
        unit: 'bytes',
        queries: [{ expr: `process_resident_memory_bytes${ofParts}`, legend }],
      },
      {
        title: 'Time in full garbage collections',
        description: 'Usually below 1 %. Above 10 % the heap is nearly full, and the process will end soon.',
        kind: 'lines',
        unit: 'percentunit',
        threshold: { value: 0.1 },
        queries: [
          {
            expr: `sum by (job, instance) (rate(nodejs_gc_duration_seconds_sum{kind!="minor"}${RATE}))${ofParts}`,
            legend,
          },
        ],
      },
    ],
  };
}
