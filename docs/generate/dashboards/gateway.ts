import { breaker, brokers, processes, publishDuration, publishFailures } from './common.ts';
import { type Dashboard, quantile, rate } from './dashboard.ts';

/** Shows requests, records and publishes of the gateway, and requests of the admin listener. */
export const gateway: Dashboard = {
  uid: 'sluice-gateway',
  title: 'Sluice: gateway',
  description: 'Requests by operation, records by kind, and the way to the event log.',
  rows: [
    {
      title: 'Requests',
      panels: [
        {
          title: 'Requests by operation',
          description: 'Per second. Of both listeners; operations are those of the OpenAPI documents.',
          kind: 'lines',
          unit: 'reqps',
          queries: [
            { expr: `${rate('sluice_http_requests_total', ['operation'])} > 0`, legend: '{{operation}}' },
          ],
        },
        {
          title: 'Refused and failed requests',
          description:
            'Per second, by listener, status and error code. 400, 413, 422: mistakes of callers. 401, 403: keys. 429: over a rate or quota. 503: see the overview. 500: a defect, or a lost key.',
          kind: 'lines',
          unit: 'reqps',
          queries: [
            {
              expr: `${rate('sluice_http_requests_total', ['listener', 'status', 'code'], '{status=~"[45].."}')} > 0`,
              legend: '{{listener}} {{status}} {{code}}',
            },
          ],
        },
        {
          title: 'Time of a request by operation',
          description:
            '99 % were answered in this time. All high: the event log or the event loop. One high: large batches, or its queries.',
          kind: 'lines',
          unit: 's',
          queries: [
            {
              expr: quantile(0.99, 'sluice_http_request_duration_seconds', ['operation']),
              legend: '{{operation}}',
            },
          ],
        },
      ],
    },
    {
      title: 'Records',
      panels: [
        {
          title: 'Accepted records',
          description: 'Per second and kind, as the event log acknowledged them.',
          kind: 'lines',
          unit: 'short',
          queries: [{ expr: rate('sluice_records_accepted_total', ['kind']), legend: '{{kind}}' }],
        },
        {
          title: 'Refused records',
          description:
            'Per second and code. 422-01 and bad params: contents. 429-01: a rate or quota. 503-01: the event log.',
          kind: 'lines',
          unit: 'short',
          queries: [{ expr: rate('sluice_records_refused_total', ['code']), legend: '{{code}}' }],
        },
        {
          title: 'Repeats and conflicts',
          description:
            'Records per second whose id was accepted before: with the same content (a caller repeats, after a timeout for example), or with other content (a caller uses an id twice, and is refused).',
          kind: 'lines',
          unit: 'short',
          queries: [
            { expr: `sum(rate(sluice_records_known_total[$__rate_interval]))`, legend: 'repeats' },
            { expr: `sum(rate(sluice_records_conflicts_total[$__rate_interval]))`, legend: 'conflicts' },
          ],
        },
        {
          title: 'Records with unknown members',
          description:
            'Per second and kind. The members were ignored: callers have a typing error, or are newer than this release.',
          kind: 'lines',
          unit: 'short',
          queries: [{ expr: rate('sluice_unknown_members_total', ['kind']), legend: '{{kind}}' }],
        },
      ],
    },
    { title: 'Event log', panels: [publishDuration, publishFailures, breaker, brokers] },
    {
      title: 'Batches and queue',
      panels: [
        {
          title: 'Records sent together',
          description:
            'Average records of a batch to the event log. It grows with the load, which saves work.',
          kind: 'lines',
          unit: 'short',
          queries: [
            {
              expr: `${rate('sluice_publish_batch_records_sum', ['topic'])} / ${rate('sluice_publish_batch_records_count', ['topic'])}`,
              legend: '{{topic}}',
            },
          ],
        },
        {
          title: 'Bytes to the event log',
          description: 'Per second and topic.',
          kind: 'lines',
          unit: 'Bps',
          queries: [{ expr: rate('sluice_publish_batch_bytes_sum', ['topic']), legend: '{{topic}}' }],
        },
        {
          title: 'Queue for the event log',
          description:
            'Share of SLUICE_PUBLISH_BUFFER_BYTES in use. Near 1 the log is too slow for the load, and requests get 503-01.',
          kind: 'lines',
          unit: 'percentunit',
          max: 1,
          threshold: { value: 0.8 },
          queries: [
            {
              expr: 'max by (instance) (sluice_publish_queue_bytes / sluice_publish_queue_bytes_max)',
              legend: '{{instance}}',
            },
          ],
        },
      ],
    },
    {
      title: 'Connections and log',
      panels: [
        {
          title: 'Open connections',
          description: 'By listener. The limit is SLUICE_CONNECTIONS_MAX per process.',
          kind: 'lines',
          unit: 'short',
          queries: [
            {
              expr: 'sum by (listener, instance) (sluice_http_connections)',
              legend: '{{listener}} {{instance}}',
            },
          ],
        },
        {
          title: 'Refused connections',
          description:
            'Per second. all: SLUICE_CONNECTIONS_MAX is reached. address: one caller, or a load balancer without SLUICE_TRUSTED_HOPS.',
          kind: 'lines',
          unit: 'short',
          queries: [
            {
              expr: rate('sluice_http_connections_refused_total', ['listener', 'reason']),
              legend: '{{listener}} {{reason}}',
            },
          ],
        },
        {
          title: 'Requests without an operation',
          description:
            'Per second, by code. 404-01: a path or method that does not exist. 400-01: not valid HTTP, headers that are too large, or a request that did not arrive in time. Many: a broken caller or proxy, or a scanner.',
          kind: 'lines',
          unit: 'reqps',
          queries: [
            {
              expr: rate('sluice_http_requests_total', ['listener', 'code'], '{operation="unknown"}'),
              legend: '{{listener}} {{code}}',
            },
          ],
        },
        {
          title: 'Lines left out of the access log',
          description:
            'Per second. Lines about refused and failed requests that another line stands for. High: many requests of one kind fail; the panel of refused requests shows which.',
          kind: 'lines',
          unit: 'short',
          queries: [
            { expr: rate('sluice_access_log_suppressed_total', ['listener']), legend: '{{listener}}' },
          ],
        },
      ],
    },
    processes('gateway|admin|embedded'),
  ],
};
