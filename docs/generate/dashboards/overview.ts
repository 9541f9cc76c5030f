import {
  batchFailures,
  batchStages,
  breaker,
  brokers,
  endpoints,
  failedAttempts,
  failedShare,
  lagSeconds,
  newDeadLetters,
  oldestWebhook,
  openDeadLetters,
  pool,
  processes,
  publishDuration,
  publishFailures,
  readFailures,
  roundTrip,
  stalled,
  waitingWebhooks,
} from './common.ts';
import { type Dashboard, quantile, rate } from './dashboard.ts';

/** Shows which part of Sluice has a problem, and its cause. */
export const overview: Dashboard = {
  uid: 'sluice-overview',
  title: 'Sluice: overview',
  description:
    'Which part has a problem, and why. Read it from the top; docs/operations.md has a runbook for each alert.',
  rows: [
    {
      title: 'What is wrong',
      panels: [
        {
          title: 'Alerts',
          description:
            'Each line is an alert of deploy/prometheus/rules.yml. docs/operations.md has a runbook of the same name, and a table of the causes that raise several. No lines: no alert, or the rules are not loaded.',
          kind: 'table',
          unit: 'short',
          queries: [
            {
              expr: 'max by (alertname, alertstate, severity, part, listener, operation, code, topic, reason, stage, pool, metric, setting, job, instance, mountpoint) (ALERTS{alertname=~"Sluice.*"})',
              legend: '{{alertname}}',
            },
          ],
        },
        {
          title: 'Why a part is not ready',
          description:
            'One row per reason. gateway event log: the brokers. gateway topics: missing topics. worker with a topic: the database if batches fail, otherwise the brokers. admin database: the database. /health/ready has the reason in words.',
          kind: 'states',
          unit: 'short',
          queries: [{ expr: 'max by (part, reason) (sluice_not_ready)', legend: '{{part}}: {{reason}}' }],
        },
        {
          title: 'Processes that do not answer',
          description: 'Red: Prometheus cannot scrape the process. It ended, hangs, or cannot be reached.',
          kind: 'states',
          unit: 'short',
          queries: [{ expr: '1 - up{job=~"sluice.*"}', legend: '{{job}} {{instance}}' }],
        },
      ],
    },
    {
      title: 'Requests',
      panels: [
        {
          title: 'Requests',
          description:
            'Per second and listener. A sudden fall to 0: callers, the network, or a load balancer that sees no ready gateway.',
          kind: 'lines',
          unit: 'reqps',
          queries: [{ expr: rate('sluice_http_requests_total', ['listener']), legend: '{{listener}}' }],
        },
        {
          title: 'Requests that fail with 5xx',
          description:
            'Share of all requests. 503-01: the event log or the database is down, or too much waits. 500-01: a defect, or a lost key. The dashboard Gateway shows them by code.',
          kind: 'lines',
          unit: 'percentunit',
          threshold: { value: 0.01 },
          queries: [
            {
              expr: `${rate('sluice_http_requests_total', ['listener'], '{status=~"5.."}')} / ${rate('sluice_http_requests_total', ['listener'])}`,
              legend: '{{listener}}',
            },
          ],
        },
        {
          title: 'Time of a request',
          description:
            '99 % of the requests were answered in this time. High at the gateway: the event log if the publish latency is high too, otherwise the database, in which keys and ids are looked up; the dashboard Gateway shows it by operation. High at the admin listener: the database.',
          kind: 'lines',
          unit: 's',
          queries: [
            {
              expr: quantile(0.99, 'sluice_http_request_duration_seconds', ['listener']),
              legend: '{{listener}}',
            },
          ],
        },
      ],
    },
    {
      title: 'Event log: Kafka, or Postgres with npm start',
      panels: [publishFailures, breaker, brokers, publishDuration],
    },
    { title: 'Database', panels: [roundTrip, batchStages, batchFailures, pool, readFailures] },
    { title: 'Records', panels: [lagSeconds, stalled, newDeadLetters, openDeadLetters] },
    { title: 'Receivers of webhooks', panels: [failedShare, failedAttempts, endpoints] },
    { title: 'Queue of webhooks', panels: [waitingWebhooks, oldestWebhook] },
    {
      title: 'Machines',
      panels: [
        {
          title: 'Free space on disks',
          description:
            'Share of the disk of npm start, and of disks in the job sluice-disks (node_exporter of Postgres and brokers). At 0 records wait or are refused. Disks that nobody measures are missing.',
          kind: 'lines',
          noData:
            'Nobody measures the disks: add node_exporter of Postgres and brokers as the job sluice-disks',
          unit: 'percentunit',
          max: 1,
          threshold: { value: 0.1, bad: 'below' },
          queries: [
            {
              expr: 'sluice_data_dir_free_bytes / sluice_data_dir_size_bytes or node_filesystem_avail_bytes{job="sluice-disks", fstype!~"tmpfs|overlay|squashfs|ramfs"} / node_filesystem_size_bytes',
              legend: '{{instance}} {{mountpoint}}',
            },
          ],
        },
        {
          title: 'Restarts',
          description:
            'Starts of each process in the last 15 minutes. 3 or more without a deployment: a record that kills workers, too little memory, or a defect.',
          kind: 'lines',
          unit: 'short',
          threshold: { value: 3 },
          queries: [
            {
              expr: 'changes(process_start_time_seconds{job=~"sluice.*"}[15m])',
              legend: '{{job}} {{instance}}',
            },
          ],
        },
      ],
    },
    processes('.+'),
  ],
};
