import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLogHealth } from '../../../gateway/publish/log-health.ts';
import { AppError } from '../../../shared/errors.ts';
import { createHealth } from '../../../shared/http/health.ts';
import type { OutgoingRecord, PublishOutcome } from '../../../shared/log/log.ts';

const OK: PublishOutcome = { ok: true, partition: 0, offset: 0n };
const REFUSED: PublishOutcome = { ok: false, reason: 'timeout', outcomeUnknown: false };
const FULL: PublishOutcome = { ok: false, reason: 'queue-full', outcomeUnknown: false };
const SILENT = new Error('no broker');
const NO_RECORDS = ['event log: does not take records'];
const NO_ANSWER = ['event log: does not answer'];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** The health of a log that answered, and of which the test says how probes and publishes end. */
async function setUp() {
  const health = createHealth();
  const state = { error: undefined as Error | undefined, probes: 0 };
  const logHealth = createLogHealth({
    health,
    logger: pino({ level: 'silent' }),
    probe: async () => {
      state.probes++;
      if (state.error) throw state.error;
    },
  });
  const ready = () => health.readyReasons();
  expect(ready()).toEqual(['event log: was not reached yet']);
  await vi.advanceTimersByTimeAsync(0);
  expect(ready()).toEqual([]);
  return {
    state,
    logHealth,
    ready,
    admits: (partition = 0) => logHealth.admits('t', [to(partition)]),
    end: (outcome: PublishOutcome, partition = 0) => logHealth.onOutcomes('t', [to(partition)], [outcome]),
    pass: (ms: number) => vi.advanceTimersByTimeAsync(ms),
  };
}

const to = (partition: number): OutgoingRecord => ({ partition, key: 'k', value: Buffer.alloc(0) });

describe('a log that does not answer', () => {
  it('is asked at the first failure; requests are refused at once until it answers, a second at most after it does', async () => {
    const { state, ready, admits, end, pass } = await setUp();
    state.error = SILENT;
    expect(admits()).toBe(true);
    end(REFUSED);
    await pass(1000);
    expect(ready()).toEqual(NO_ANSWER);
    expect([admits(0), admits(1)]).toEqual([false, false]);
    await pass(5000);
    expect(admits()).toBe(false);
    state.error = undefined;
    await pass(1000);
    expect(ready()).toEqual([]);
    expect(admits()).toBe(true);
  });

  it('is tried all the same, seldom, since only the way of the probe may be shut', async () => {
    const { state, ready, admits, end, pass } = await setUp();
    state.error = SILENT;
    end(REFUSED);
    await pass(1000);
    await pass(10_000);
    expect([admits(0), admits(0), admits(1)]).toEqual([true, false, false]);
    end(OK);
    expect(ready()).toEqual([]);
    expect(admits(1)).toBe(true);
    await pass(60_000);
    expect(ready()).toEqual([]);
  });

  it('is asked once a second at most, however many publishes fail', async () => {
    const { state, end, pass } = await setUp();
    for (let i = 0; i < 50; i++) {
      end(REFUSED);
      await pass(50);
      end(OK);
      await pass(50);
    }
    expect(state.probes).toBeGreaterThan(1);
    expect(state.probes).toBeLessThan(8);
  });
});

describe('a log that answers and takes nothing', () => {
  it('gets one trial at a time, a second after the last, and nothing else has to wait', async () => {
    const { ready, admits, end, pass } = await setUp();
    for (let i = 0; i < 3; i++) end(REFUSED);
    expect(ready()).toEqual(NO_RECORDS);
    expect(admits()).toBe(false);
    await pass(1000);
    expect([admits(), admits(), admits()]).toEqual([true, false, false]);
    await pass(5000);
    expect(ready()).toEqual(NO_RECORDS);
    end(REFUSED);
    expect(admits()).toBe(false);
    await pass(1000);
    expect(admits()).toBe(true);
    end(OK);
    expect(ready()).toEqual([]);
    expect([admits(), admits()]).toEqual([true, true]);
  });

  it('lets each other partition be tried once: one leader that is gone fails only its own records', async () => {
    const { ready, admits, end } = await setUp();
    for (let i = 0; i < 3; i++) end(REFUSED, 0);
    expect([admits(0), admits(1), admits(1), admits(2)]).toEqual([false, true, false, true]);
    end(REFUSED, 1);
    expect(admits(1)).toBe(false);
    end(OK, 2);
    expect(ready()).toEqual([]);
    expect([admits(0), admits(1), admits(2)]).toEqual([true, true, true]);
  });

  it('is not ready again because it answers; without requests it gets a chance, which one failure ends, for ever longer', async () => {
    const { ready, admits, end, pass } = await setUp();
    for (let i = 0; i < 3; i++) end(REFUSED);
    const waits: number[] = [];
    for (let chance = 0; chance < 6; chance++) {
      let waitedMs = 0;
      while (ready().length > 0) {
        await pass(500);
        waitedMs += 500;
      }
      waits.push(waitedMs);
      expect([admits(), admits()]).toEqual([true, false]);
      end(REFUSED);
      expect(ready()).toEqual(NO_RECORDS);
    }
    expect(waits).toEqual([2000, 4000, 8000, 16_000, 30_000, 30_000]);
    await pass(1000);
    expect(admits()).toBe(true);
    end(OK);
    for (let i = 0; i < 3; i++) end(REFUSED);
    await pass(2500);
    expect(ready()).toEqual([]);
  });

  it('gets no chance while requests try anyway', async () => {
    const { ready, admits, end, pass } = await setUp();
    for (let i = 0; i < 3; i++) end(REFUSED);
    for (let trial = 0; trial < 10; trial++) {
      await pass(1000);
      expect(admits()).toBe(true);
      for (let waited = 0; waited < 10; waited++) {
        await pass(500);
        expect(ready()).toEqual(NO_RECORDS);
      }
      end(REFUSED);
    }
  });

  it('is not blamed for what is ours, nor for single failures', async () => {
    const { ready, admits, end } = await setUp();
    for (let i = 0; i < 9; i++) end(FULL);
    for (let i = 0; i < 9; i++) {
      end(REFUSED);
      end(REFUSED);
      end(OK);
    }
    expect(ready()).toEqual([]);
    expect(admits()).toBe(true);
  });
});

it('stays not ready for a topic that is missing, whatever other topics take, and refuses nothing at once', async () => {
  const { state, ready, admits, end, pass } = await setUp();
  state.error = new AppError('TOPIC_MISSING', 't does not exist');
  end(REFUSED);
  await pass(1000);
  const missing = ['event log: cannot be used: t does not exist'];
  expect(ready()).toEqual(missing);
  expect(admits()).toBe(true);
  end(OK, 1);
  expect(ready()).toEqual(missing);
  state.error = undefined;
  await pass(1000);
  expect(ready()).toEqual([]);
});

describe('publishes that fail while others are taken', () => {
  it('close nothing, however many end at once: a flood waits for its own queue or partition', async () => {
    const { logHealth, ready, admits, pass } = await setUp();
    const flood = Array.from({ length: 50 }, () => [to(0)]);
    for (const records of flood) expect(logHealth.admits('t', records)).toBe(true);
    const other = [to(1)];
    logHealth.admits('t', other);
    logHealth.onOutcomes('t', other, [OK]);
    for (const records of flood) logHealth.onOutcomes('t', records, [REFUSED]);
    expect(admits(1)).toBe(true);
    await pass(1);
    expect(ready()).toEqual([]);
    // What began after the last one that was taken counts as ever.
    const later = Array.from({ length: 3 }, () => [to(0)]);
    for (const records of later) logHealth.admits('t', records);
    for (const records of later) logHealth.onOutcomes('t', records, [REFUSED]);
    expect(ready()).not.toEqual([]);
  });
});
