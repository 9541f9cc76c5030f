import type { DeliveryWait, describeDelivery } from '../../shared/postgres/deliveries/delivery.ts';

type Shown = ReturnType<typeof describeDelivery>;

const WAITS: Readonly<Record<DeliveryWait, string>> = {
  'earlier-webhook': 'for an earlier webhook',
  paused: 'for resume',
  'retry-after': 'for the end of Retry-After',
  retry: 'for its retry',
};

/** Returns the state of a delivery, and what it waits for, for a cell of a table. */
export function stateText({ state, redelivered, waitsFor }: Shown): string {
  const text = redelivered ? `${state}, again` : state;
  return waitsFor === null ? text : `${text}\n${WAITS[waitsFor]}`;
}

/** Returns when a queued delivery is attempted. */
export function attemptText({ waitsFor, nextAttemptAt, endpointId }: Shown): string {
  const resume = `./sluice webhooks resume ${endpointId}`;
  if (waitsFor === 'paused') return `The endpoint is paused. It is attempted after: ${resume}`;
  if (waitsFor === 'retry-after') {
    return `The endpoint asked for a pause until ${nextAttemptAt}. It is attempted then, or after: ${resume}`;
  }
  return 'It is attempted within a second if workers run, and as fast as the endpoint takes webhooks.';
}
