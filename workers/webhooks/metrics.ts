import { Counter, Histogram } from 'prom-client';
import { DURATION_BUCKETS } from '../../shared/metrics/buckets.ts';
import { registry } from '../../shared/metrics/registry.ts';
import type { Exchange } from '../../shared/webhooks/exchange.ts';
import { ERROR_CLASSES } from '../../shared/webhooks/failure.ts';

/** The upper bounds of delays in seconds. Beyond a minute, only the order of magnitude matters. */
const DELAY_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

const attempts = new Counter({
  name: 'sluice_webhook_attempts_total',
  help: 'Attempts of this process to send a webhook, by result (delivered: the endpoint answered 2xx) and class of the error: address (the URL may not be dialled), dns, connect, tls, timeout, answer (no valid answer), status (another answer than 2xx) or sender (the cause is on this side). Empty class: delivered.',
  labelNames: ['result', 'class'],
  registers: [registry],
});

const attemptDuration = new Histogram({
  name: 'sluice_webhook_attempt_duration_seconds',
  help: 'Seconds of an attempt, from name resolution to the end of the answer, by result. An attempt ends after 15 s at the latest.',
  labelNames: ['result'],
  buckets: DURATION_BUCKETS,
  registers: [registry],
});

const delay = new Histogram({
  name: 'sluice_webhook_delay_seconds',
  help: 'Seconds from the time at which a delivery was due to the beginning of its attempt. Includes waits for earlier deliveries of the conversation, for slots of a slow or failing endpoint, and for the rate and pauses of an endpoint.',
  buckets: DELAY_BUCKETS,
  registers: [registry],
});

const STATES = ['delivered', 'failed', 'dropped'] as const;

const ended = new Counter({
  name: 'sluice_webhook_deliveries_total',
  help: 'Deliveries that this process ended, by final state: delivered, failed (no attempt is left, or the endpoint answered 410) or dropped (the endpoint was disabled or deleted, or the body is gone).',
  labelNames: ['state'],
  registers: [registry],
});

/** Numbers of deliveries by final state. */
export type EndedDeliveries = Record<(typeof STATES)[number], number>;

const countByState = new Map(STATES.map((state) => [state, ended.labels(state)]));
const countByClass = new Map(
  ['', ...ERROR_CLASSES].map((name) => [name, attempts.labels(name === '' ? 'delivered' : 'failed', name)]),
);
const durationByResult = {
  delivered: attemptDuration.labels('delivered'),
  failed: attemptDuration.labels('failed'),
};

// Rates begin at 0, so that the first event counts.
for (const counter of [...countByState.values(), ...countByClass.values()]) counter.inc(0);
for (const result of Object.keys(durationByResult)) attemptDuration.zero({ result });

/** Counts an attempt that has ended, of a delivery that was due at `dueAtMs`. */
export function countAttempt({ outcome, startedAtMs, finishedAtMs }: Exchange, dueAtMs: number): void {
  countByClass.get(outcome.kind === 'failed' ? (outcome.errorClass ?? 'sender') : '')!.inc();
  durationByResult[outcome.kind].observe((finishedAtMs - startedAtMs) / 1000);
  delay.observe(Math.max(0, startedAtMs - dueAtMs) / 1000);
}

/** Counts deliveries whose end was committed. */
export function countEnded(deliveries: EndedDeliveries): void {
  for (const [state, counter] of countByState) if (deliveries[state] > 0) counter.inc(deliveries[state]);
}
