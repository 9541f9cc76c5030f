import { expect, test } from 'vitest';
import { monotonicClock } from '../../shared/clock.ts';

test('a monotonic clock continues when its source is set back, and follows it when it is ahead again', () => {
  let wallMs = 1000;
  let elapsed = 0;
  const clock = monotonicClock({ nowMs: () => wallMs }, () => elapsed);
  expect(clock.nowMs()).toBe(1000);
  wallMs = 1500;
  elapsed = 500;
  expect(clock.nowMs()).toBe(1500);
  wallMs = 0;
  elapsed = 700.5;
  expect(clock.nowMs()).toBe(1700);
  // A second backward step, and times between two milliseconds, which must not be lost.
  wallMs = -5000;
  elapsed = 701;
  expect(clock.nowMs()).toBe(1701);
  wallMs = 1702;
  elapsed = 701.2;
  expect(clock.nowMs()).toBe(1702);
  // The result does not advance while the wall clock is stopped.
  elapsed = 900;
  expect(clock.nowMs()).toBe(1702);
});
