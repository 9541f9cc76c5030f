import { expect, it } from 'vitest';
import { createBusyMeter, Gathering } from '../../shared/log/embedded/gathering.ts';

/** A meter over a clock and an activity that the test sets. */
function startMeter() {
  const time = { nowMs: 0, activeMs: 0 };
  const utilization = (now?: { active: number; idle: number }, last?: { active: number; idle: number }) => {
    const active = now ? now.active - last!.active : time.activeMs;
    const idle = now ? now.idle - last!.idle : time.nowMs - time.activeMs;
    return { active, idle, utilization: active / (active + idle) };
  };
  const isBusy = createBusyMeter(utilization as typeof performance.eventLoopUtilization, () => time.nowMs);
  const pass = (ms: number, activeShare: number) => {
    time.nowMs += ms;
    time.activeMs += ms * activeShare;
  };
  return { isBusy, pass };
}

it('a process counts as busy once it was active for most of the last measured time', () => {
  const { isBusy, pass } = startMeter();
  pass(10_000, 0.1);
  expect(isBusy()).toBe(false);
  pass(60, 0.9);
  expect(isBusy()).toBe(true);
  pass(10, 0);
  expect(isBusy(), 'the measured time is too short').toBe(true);
  pass(10_000, 0.1);
  expect(isBusy()).toBe(false);
});

it('gathering delays nothing in an idle process', async () => {
  const gathering = new Gathering(() => false, 2 ** 30);
  await gathering.turn();
});

it('gathering releases the callers of a busy process together', async () => {
  const gathering = new Gathering(() => true, 50);
  const released: string[] = [];
  const turn = async (name: string) => {
    await gathering.turn();
    released.push(name);
  };
  const first = turn('first');
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(released).toEqual([]);
  const second = turn('second');
  await first;
  // In the same turn of the event loop, although it came later.
  await Promise.resolve();
  expect(released).toEqual(['first', 'second']);
  await second;
});
