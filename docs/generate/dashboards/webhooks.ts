import { endpoints, failedAttempts, failedShare, oldestWebhook, waitingWebhooks } from './common.ts';
import { type Dashboard, quantile, rate } from './dashboard.ts';

/** Shows how webhooks are delivered. */
export const webhooks: Dashboard = {
  uid: 'sluice-webhooks',
  title: 'Sluice: webhooks',
  description:
    'Attempts, their results and times, and what waits. `sluice webhooks list` names the endpoints.',
  rows: [
    {
      title: 'Attempts',
      panels: [
        {
          title: 'Attempts by result',
          description: 'Per second. Mostly failed: a busy endpoint is dead, or your network.',
          kind: 'lines',
          unit: 'short',
          queries: [{ expr: rate('sluice_webhook_attempts_total', ['result']), legend: '{{result}}' }],
        },
        failedShare,
        failedAttempts,
        endpoints,
      ],
    },
    {
      title: 'Times',
      panels: [
        {
          title: 'Time of an attempt',
          description: 'Median and 99 % by result. High: slow receivers. An attempt ends after 15 s.',
          kind: 'lines',
          unit: 's',
          queries: [
            {
              expr: quantile(0.5, 'sluice_webhook_attempt_duration_seconds', ['result']),
              legend: 'median {{result}}',
            },
            {
              expr: quantile(0.99, 'sluice_webhook_attempt_duration_seconds', ['result']),
              legend: '99 % {{result}}',
            },
          ],
        },
        {
          title: 'Delay until an attempt begins',
          description:
            'From the time at which it was due. Includes waits for earlier webhooks of the conversation, for slow endpoints and for rates.',
          kind: 'lines',
          unit: 's',
          queries: [
            { expr: quantile(0.5, 'sluice_webhook_delay_seconds', []), legend: 'median' },
            { expr: quantile(0.99, 'sluice_webhook_delay_seconds', []), legend: '99 %' },
          ],
        },
        oldestWebhook,
      ],
    },
    {
      title: 'Deliveries',
      panels: [
        {
          title: 'Ended deliveries',
          description:
            'Per second. failed: given up after the last attempt; `sluice webhooks recover` sends them again. dropped: the endpoint was disabled or deleted.',
          kind: 'lines',
          unit: 'short',
          queries: [{ expr: rate('sluice_webhook_deliveries_total', ['state']), legend: '{{state}}' }],
        },
        waitingWebhooks,
        {
          title: 'Running recoveries',
          description: 'Jobs of `sluice webhooks recover` that send a range of time again.',
          kind: 'lines',
          unit: 'short',
          queries: [{ expr: 'max(sluice_webhook_recoveries_running)', legend: 'running' }],
        },
      ],
    },
  ],
};
