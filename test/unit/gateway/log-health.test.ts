import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LogHealth, type PublishAttempt } from '../../../gateway/publish/log-health.ts';
import { AppError } from '../../../shared/errors.ts';
import { createHealth } from '../../../shared/http/health.ts';
import type { OutgoingRecord, PublishOutcome } from '../../../shared/log/log.ts';

const OK: PublishOutcome = { ok: true, partition: 0, offset: 0n };
const REFUSED: PublishOutcome = { ok: false, reason: 'timeout', outcomeUnknown: false };
const FULL: PublishOutcome = { ok: false, reason: 'queue-full', outcomeUnknown: false };
const SILENT = new Error('no broker');
const NO_RECORDS = ['event log: accepts no records'];
const NO_ANSWER = ['event log: does not answer'];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Returns the health of a log that answered; the test decides how probes and publishes end. */
async function setUp() {
  const health = createHealth();
  const state = { error: undefined as Error | undefined, hang: false, probes: 0 };
  const logHealth = new LogHealth({
    health,
    logger: pino({ level: 'silent' }),
    probe: async () => {
      state.probes++;
      if (state.hang) await new Promise(() => {});
      if (state.error) throw state.error;
    },
  });
  const ready = () => health.readyReasons();
  expect(ready()).toEqual(['event log: is not checked yet']);
  await vi.advanceTimersByTimeAsync(0);
  expect(ready()).toEqual([]);
  const begin = (partition = 0) => logHealth.begin('t', [to(partition)]);
  return {
    state,
    ready,
    begin,
    logHealth,
    /** Publishes a record; returns undefined if it was refused. */
    publish: (outcome: PublishOutcome, partition = 0) => begin(partition)?.end([outcome]) ?? undefined,
    pass: (ms: number) => vi.advanceTimersByTimeAsync(ms),
  };
}

const to = (partition: number): OutgoingRecord => ({ partition, key: 'k', value: Buffer.alloc(0) });
const admitted = (...attempts: (PublishAttempt | undefined)[]) =>
  attempts.map((attempt) => attempt !== undefined);

describe('a log that does not answer', () => {
  it('is probed after the first failure; requests are refused until at most 1 s after it answers', async () => {
    const { state, ready, begin, publish, pass } = await setUp();
    state.error = SILENT;
    publish(REFUSED);
    await pass(1000);
    expect(ready()).toEqual(NO_ANSWER);
    expect(admitted(begin(0), begin(1))).toEqual([false, false]);
    await pass(5000);
    expect(ready()).toEqual(NO_ANSWER);
    expect(admitted(begin(0), begin(0), begin(1))).toEqual([true, false, false]);
    state.error = undefined;
    await pass(1000);
    expect(ready()).toEqual([]);
    expect(admitted(begin(0), begin(0))).toEqual([true, true]);
  });

  it('gets trial publishes too, since only the probe may be blocked', async () => {
    const { state, ready, begin, publish, pass } = await setUp();
    state.error = SILENT;
    publish(REFUSED);
    await pass(1000);
    expect(admitted(begin())).toEqual([false]);
    await pass(2000);
    publish(OK);
    expect(ready()).toEqual([]);
    expect(admitted(begin(0), begin(1))).toEqual([true, true]);
    await pass(60_000);
    expect(ready()).toEqual([]);
  });

  it('is probed at most once per second, however many publishes fail', async () => {
    const { state, publish, pass } = await setUp();
    for (let i = 0; i < 50; i++) {
      publish(REFUSED);
      await pass(50);
      publish(OK);
      await pass(50);
    }
    expect(state.probes).toBeGreaterThan(1);
    expect(state.probes).toBeLessThan(8);
  });

  it('is healthy when a publish succeeds while the probe waits for an answer', async () => {
    const { state, ready, begin, publish, pass } = await setUp();
    state.hang = true;
    await pass(1000);
    publish(REFUSED);
    await pass(0);
    expect(state.probes).toBe(2);
    await pass(1000);
    publish(OK);
    await pass(5000);
    expect(ready()).toEqual([]);
    expect(admitted(begin())).toEqual([true]);
  });
});

describe('a log that answers but accepts nothing, as on a full disk', () => {
  it('is not ready for 2 s after 3 failures; then one trial per second is let through, all others are refused', async () => {
    const { ready, begin, publish, pass } = await setUp();
    for (let i = 0; i < 3; i++) publish(REFUSED);
    expect(ready()).toEqual(NO_RECORDS);
    expect(admitted(begin())).toEqual([false]);
    await pass(1900);
    expect(ready()).toEqual(NO_RECORDS);
    await pass(100);
    expect(ready()).toEqual([]);
    const trial = begin()!;
    expect(admitted(begin(), begin())).toEqual([false, false]);
    trial.end([REFUSED]);
    expect(ready()).toEqual(NO_RECORDS);
    await pass(4000);
    begin()!.end([OK]);
    expect(ready()).toEqual([]);
    expect(admitted(begin(), begin())).toEqual([true, true]);
  });

  it('lets each other partition be tried once: one leader that is gone fails only its own records', async () => {
    const { ready, begin, publish } = await setUp();
    for (let i = 0; i < 3; i++) publish(REFUSED, 0);
    expect(admitted(begin(0))).toEqual([false]);
    const attempts = [begin(1), begin(1), begin(2)];
    expect(admitted(...attempts)).toEqual([true, false, true]);
    attempts[0]!.end([REFUSED]);
    expect(admitted(begin(1))).toEqual([false]);
    attempts[2]!.end([OK]);
    expect(ready()).toEqual([]);
    expect(admitted(begin(0), begin(1), begin(2))).toEqual([true, true, true]);
  });

  it('is ready again by time alone, without requests; each failed trial doubles the time up to 8 s', async () => {
    const { state, ready, begin, publish, pass } = await setUp();
    for (let i = 0; i < 3; i++) publish(REFUSED);
    const waits: number[] = [];
    for (let trial = 0; trial < 4; trial++) {
      let waitedMs = 0;
      for (; ready().length > 0; waitedMs += 500) await pass(500);
      waits.push(waitedMs);
      begin()!.end([REFUSED]);
      expect(ready()).toEqual(NO_RECORDS);
    }
    expect(waits).toEqual([2000, 4000, 8000, 8000]);
    expect(state.probes).toBeGreaterThan(1);
    await pass(8000);
    begin()!.end([OK]);
    for (let i = 0; i < 3; i++) publish(REFUSED);
    await pass(2000);
    expect(ready()).toEqual([]);
  });

  it('is not assumed after full queues of the gateway or single failures', async () => {
    const { ready, begin, publish } = await setUp();
    for (let i = 0; i < 9; i++) publish(FULL);
    for (let i = 0; i < 9; i++) {
      publish(REFUSED);
      publish(REFUSED);
      publish(OK);
    }
    expect(ready()).toEqual([]);
    expect(admitted(begin())).toEqual([true]);
  });
});

it('a gateway with a missing topic stays not ready although other topics accept, and refuses no requests', async () => {
  const { state, ready, begin, publish, pass } = await setUp();
  state.error = new AppError('TOPIC_MISSING', 't does not exist');
  publish(REFUSED);
  await pass(1000);
  const missing = ['event log: cannot be used: t does not exist'];
  expect(ready()).toEqual(missing);
  expect(admitted(begin())).toEqual([true]);
  publish(OK, 1);
  expect(ready()).toEqual(missing);
  state.error = undefined;
  await pass(1000);
  expect(ready()).toEqual([]);
});

describe('failed publishes while others succeed', () => {
  it('do not open the breaker, however many end together', async () => {
    const { ready, begin, publish, pass } = await setUp();
    const flood = Array.from({ length: 50 }, () => begin()!);
    publish(OK, 1);
    for (const attempt of flood) attempt.end([REFUSED]);
    expect(admitted(begin(1))).toEqual([true]);
    await pass(1);
    expect(ready()).toEqual([]);
    // Only publishes that began after the last success count.
    const later = Array.from({ length: 3 }, () => begin()!);
    for (const attempt of later) attempt.end([REFUSED]);
    expect(ready()).toEqual(NO_RECORDS);
  });
});

it('a log that is checked again is not ready until the probe succeeds, also if it accepts records', async () => {
  const { state, ready, logHealth, publish, pass } = await setUp();
  const { probes } = state;
  logHealth.checkAgain();
  publish(OK);
  expect(ready()).toEqual(['event log: is not checked yet']);
  await pass(0);
  expect(ready()).toEqual([]);
  expect(state.probes).toBe(probes + 1);
});
