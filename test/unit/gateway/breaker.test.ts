import { expect, test } from 'vitest';
import { createBreaker } from '../../../gateway/publish/breaker.ts';

const HOUR_MS = 3_600_000;

function openBreaker() {
  const clock = { now: 10 * HOUR_MS, nowMs: () => clock.now };
  const breaker = createBreaker(clock, 2, 1_000);
  breaker.onFailure();
  breaker.onFailure();
  return { clock, breaker };
}

test('an open breaker lets one try every so often', () => {
  const { clock, breaker } = openBreaker();
  clock.now += 999;
  expect(breaker.mayTry()).toBe(false);
  clock.now += 1;
  expect([breaker.mayTry(), breaker.mayTry()]).toEqual([true, false]);
});

test('a clock that is set back does not keep it open until it has caught up', () => {
  const { clock, breaker } = openBreaker();
  clock.now -= HOUR_MS;
  expect([breaker.mayTry(), breaker.mayTry()]).toEqual([true, false]);
  clock.now += 1_000;
  expect(breaker.mayTry()).toBe(true);
});
