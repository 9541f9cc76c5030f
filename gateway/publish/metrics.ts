import { Counter, Gauge } from 'prom-client';
import type { PublishOutcome } from '../../shared/log/log.ts';
import { DURATION_BUCKETS } from '../../shared/metrics/buckets.ts';
import { HotHistogram } from '../../shared/metrics/hot-metrics.ts';
import { registry } from '../../shared/metrics/registry.ts';
import type { BreakerState, CircuitBreaker } from '../circuit-breaker.ts';

const registers = [registry];

const publishDurations = new HotHistogram({
  name: 'sluice_publish_duration_seconds',
  help: 'Time that the records of a request took to be acknowledged by the log, or to fail.',
  labelNames: ['topic'],
  buckets: DURATION_BUCKETS,
});

const publishFailures = new Counter({
  name: 'sluice_publish_failures_total',
  help: 'Records that were not acknowledged by the log. Reason breaker-open: no attempt was made; unavailable: also if an earlier record of the request failed.',
  labelNames: ['topic', 'reason'],
  registers,
});

const PUBLISH_FAILURES = [
  'timeout',
  'unavailable',
  'queue-full',
  'too-large',
  'closed',
  'breaker-open',
] as const;

const BREAKER_STATES: readonly BreakerState[] = ['closed', 'open', 'half-open'];
let breaker: CircuitBreaker | undefined;

new Gauge({
  name: 'sluice_publish_breaker_state',
  help: '1 for the state of the circuit breaker in front of the log; while it is open, requests get 503-01.',
  labelNames: ['state'],
  registers,
  collect() {
    if (breaker === undefined) return;
    const current = breaker.state;
    for (const state of BREAKER_STATES) this.set({ state }, state === current ? 1 : 0);
  },
});

/** Counts and times the publishes to one topic. */
export class PublishMetrics {
  private readonly topic: string;
  private readonly durations;

  constructor(topic: string) {
    this.topic = topic;
    this.durations = publishDurations.of({ topic });
    for (const reason of PUBLISH_FAILURES) publishFailures.inc({ topic, reason }, 0);
  }

  /** Counts the outcomes of a publish that began at this time of `performance.now()`. */
  ended(beganMs: number, outcomes: readonly PublishOutcome[]): void {
    this.durations.observe((performance.now() - beganMs) / 1000);
    for (const outcome of outcomes) {
      if (!outcome.ok) publishFailures.inc({ topic: this.topic, reason: outcome.reason });
    }
  }

  /** Counts records for which no publish was attempted. */
  notAttempted(records: number): void {
    publishFailures.inc({ topic: this.topic, reason: 'breaker-open' }, records);
  }
}

/** Reports the state of the circuit breaker in front of the log. */
export function reportBreaker(reported: CircuitBreaker): void {
  breaker = reported;
}
