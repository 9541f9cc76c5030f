import { Webhook } from 'standardwebhooks';
import { describe, expect, test } from 'vitest';
import type { RetrySchedule } from '../../../shared/contracts/webhook-endpoints.ts';
import type { Outcome } from '../../../shared/webhooks/exchange.ts';
import { pausedUntilMs } from '../../../shared/webhooks/retry-after.ts';
import { formatWebhookSecret, newWebhookSecret } from '../../../shared/webhooks/secrets.ts';
import { signatureHeaders } from '../../../shared/webhooks/sign.ts';
import type { Attempt } from '../../../workers/webhooks/attempt.ts';
import { concurrencyOf, FAILING_MAX_MS, healthAfter } from '../../../workers/webhooks/health.ts';
import { attemptsMax, nextAttemptAtMs } from '../../../workers/webhooks/schedule.ts';
import type { EndpointHealth } from '../../../workers/webhooks/sql/endpoints.ts';

const HOUR_MS = 3_600_000;

describe('schedule', () => {
  test('5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h, then never', () => {
    const delays = delaysOf('standard');
    const hours = [2, 5, 10, 14, 20, 24].map((count) => count * HOUR_MS);
    expect(delays).toEqual([5000, 300_000, 1_800_000, ...hours, undefined]);
  });

  test('short: 5 s, 30 s, 2 min, 10 min, 30 min, then never; none: never', () => {
    expect(delaysOf('short')).toEqual([5000, 30_000, 120_000, 600_000, 1_800_000, undefined]);
    expect(delaysOf('none')).toEqual([undefined]);
  });

  test('varies each delay by up to a tenth', () => {
    expect(nextAttemptAtMs('standard', 1, 1000, () => 0)).toBe(1000 + 4500);
    expect(nextAttemptAtMs('standard', 1, 1000, () => 1)).toBe(1000 + 5500);
  });

  function delaysOf(schedule: RetrySchedule) {
    return Array.from({ length: attemptsMax(schedule) }, (_, i) =>
      nextAttemptAtMs(schedule, i + 1, 0, () => 0.5),
    );
  }
});

describe('signature', () => {
  test.each(['{"a":"plain"}', '{"n":1.0,"text":"żółw 🐢 é"}', ''])('of %j verifies', (text) => {
    const secret = newWebhookSecret();
    const headers = signatureHeaders(
      { messageId: '01ARZ', body: Buffer.from(text), timestampMs: Date.now() },
      [secret],
    );
    const webhook = new Webhook(formatWebhookSecret(secret));
    expect(() => webhook.verify(text, headers, { jsonParse: false })).not.toThrow();
    expect(() => webhook.verify(`${text} `, headers, { jsonParse: false })).toThrow();
  });

  test('exists once per active secret', () => {
    const secrets = [newWebhookSecret(), newWebhookSecret()];
    const headers = signatureHeaders(
      { messageId: 'm', body: Buffer.from('{}'), timestampMs: Date.now() },
      secrets,
    );
    for (const secret of secrets) new Webhook(formatWebhookSecret(secret)).verify('{}', headers);
  });
});

describe('Retry-After', () => {
  const nowMs = Date.parse('2026-01-01T00:00:00Z');
  test.each([
    [429, '120', 120_000],
    [503, 'Thu, 01 Jan 2026 00:01:00 GMT', 60_000],
    [429, '99999999', 24 * HOUR_MS],
    [429, '0', undefined],
    [429, '-5', undefined],
    [429, '1.5', undefined],
    [429, 'soon', undefined],
    [503, 'Wed, 31 Dec 2025 00:00:00 GMT', undefined],
    [500, '120', undefined],
    [429, undefined, undefined],
  ])('%i with %s', (status, header, pauseMs) => {
    const untilMs = pausedUntilMs(status, header, nowMs);
    expect(untilMs).toBe(pauseMs === undefined ? undefined : nowMs + pauseMs);
  });
});

describe('health of an endpoint', () => {
  const fresh: EndpointHealth = {
    state: 'enabled',
    disabledReason: null,
    failures: 0,
    failingSinceMs: null,
    lastFailureAtMs: null,
    lastSuccessAtMs: null,
    pausedUntilMs: null,
  };
  const delivered: Outcome = { kind: 'delivered', status: 200, answer: Buffer.alloc(0) };
  const failed = {
    kind: 'failed',
    status: 500,
    answer: undefined,
    error: '',
    pausedUntilMs: undefined,
    gone: false,
  } as const;
  const at = (finishedAtMs: number, outcome: Outcome): Attempt =>
    ({ delivery: {}, startedAtMs: 0, finishedAtMs, outcome }) as unknown as Attempt;

  test('permits one exchange at a time after five consecutive failures, until a success', () => {
    const four = healthAfter(
      fresh,
      [1, 2, 3, 4].map((ms) => at(ms, failed)),
    );
    expect(concurrencyOf(four, 16)).toBe(16);
    const five = healthAfter(four, [at(5, failed)]);
    expect(concurrencyOf(five, 16)).toBe(1);
    expect(five).toMatchObject({ failures: 5, failingSinceMs: 1, lastFailureAtMs: 5 });
    const again = healthAfter(five, [at(6, delivered)]);
    expect(concurrencyOf(again, 16)).toBe(16);
    expect(again).toMatchObject({ failures: 0, failingSinceMs: null, lastSuccessAtMs: 6 });
  });

  test('counts attempts in the order in which they ended', () => {
    expect(healthAfter(fresh, [at(2, failed), at(1, delivered)]).failures).toBe(1);
    expect(healthAfter(fresh, [at(2, delivered), at(1, failed)]).failures).toBe(0);
  });

  test('is disabled after five days of failures', () => {
    const times = Array.from({ length: 6 }, (_, day) => (day * FAILING_MAX_MS) / 5);
    const almost = healthAfter(
      fresh,
      times.slice(0, 5).map((ms) => at(ms, failed)),
    );
    expect(almost.state).toBe('enabled');
    expect(healthAfter(almost, [at(FAILING_MAX_MS, failed)])).toMatchObject({
      state: 'disabled',
      disabledReason: 'failing',
    });
  });

  test('ignores days without an attempt do not count as failures', () => {
    const health = healthAfter(fresh, [at(0, failed), at(FAILING_MAX_MS + 1, failed)]);
    expect(health).toMatchObject({ state: 'enabled', failingSinceMs: FAILING_MAX_MS + 1, failures: 2 });
  });

  test('410 disables the endpoint immediately', () => {
    expect(healthAfter(fresh, [at(0, { ...failed, status: 410, gone: true })])).toMatchObject({
      state: 'disabled',
      disabledReason: 'gone',
    });
  });

  test('keeps a longer pause when a shorter one is requested', () => {
    const health = healthAfter(fresh, [
      at(1, { ...failed, pausedUntilMs: 500 }),
      at(2, { ...failed, pausedUntilMs: 400 }),
      at(3, failed),
    ]);
    expect(health.pausedUntilMs).toBe(500);
  });
});
