import { describe, expect, it } from 'vitest';
import { CircuitBreaker } from '../../../gateway/circuit-breaker.ts';

function setUp() {
  const time = { elapsedMs: 0 };
  const changes: string[] = [];
  const breaker = new CircuitBreaker({
    failuresMax: 3,
    openMs: 2000,
    openMsMax: 8000,
    trialIntervalMs: 1000,
    elapsedMs: () => time.elapsedMs,
    onOpened: () => changes.push('opened'),
    onClosed: () => changes.push('closed'),
  });
  const begin = (target = 'a') => breaker.begin(() => [target]);
  const fail = (target = 'a') => begin(target)!.failed();
  return { breaker, time, changes, begin, fail };
}

/** Returns a breaker that 3 failures at `a` have opened. */
function setUpOpen() {
  const harness = setUp();
  for (let i = 0; i < 3; i++) harness.fail();
  return harness;
}

describe('a closed circuit breaker', () => {
  it('opens after 3 failures in a row', () => {
    const { breaker, begin, changes } = setUpOpen();
    expect(breaker.state).toBe('open');
    expect(begin()).toBeUndefined();
    expect(changes).toEqual(['opened']);
  });

  it('stays closed while a success comes between failures', () => {
    const { breaker, begin, fail } = setUp();
    for (let i = 0; i < 9; i++) {
      fail();
      fail();
      begin('b')!.succeeded();
    }
    expect(breaker.state).toBe('closed');
  });

  it('ignores failures of calls that began before the last success', () => {
    const { breaker, begin } = setUp();
    const flood = Array.from({ length: 50 }, () => begin('a')!);
    begin('b')!.succeeded();
    for (const attempt of flood) attempt.failed();
    expect(breaker.state).toBe('closed');
  });
});

describe('an open circuit breaker', () => {
  it('lets one call through to each target that has not failed, and closes when one of them succeeds', () => {
    const { breaker, begin, changes } = setUpOpen();
    begin('b')!.failed();
    const other = begin('c')!;
    expect([begin('a'), begin('b'), begin('c')]).toEqual([undefined, undefined, undefined]);
    other.succeeded();
    expect(breaker.state).toBe('closed');
    expect(changes).toEqual(['opened', 'closed']);
  });

  it('is half-open after its time, without any call', () => {
    const { breaker, time } = setUpOpen();
    time.elapsedMs = 1999;
    expect(breaker.state).toBe('open');
    time.elapsedMs = 2000;
    expect(breaker.state).toBe('half-open');
  });

  it('stays open when calls fail that began before it opened', () => {
    const { breaker, begin, fail, time } = setUp();
    const late = Array.from({ length: 50 }, () => begin('a')!);
    for (let i = 0; i < 3; i++) fail();
    time.elapsedMs = 2000;
    for (const attempt of late) attempt.failed();
    expect(breaker.state).toBe('half-open');
  });
});

describe('a tripped circuit breaker', () => {
  it('refuses calls to targets that have not failed, until its time has passed', () => {
    const { breaker, begin, time } = setUp();
    breaker.trip();
    expect([begin('a'), begin('b')]).toEqual([undefined, undefined]);
    time.elapsedMs = 2000;
    expect([begin('a') !== undefined, begin('b')]).toEqual([true, undefined]);
  });

  it('lets every call through once it is closed', () => {
    const { breaker, begin } = setUp();
    breaker.trip();
    breaker.close();
    expect([begin('a'), begin('a')]).not.toContain(undefined);
  });
});

describe('a half-open circuit breaker', () => {
  it('lets one trial per second through, and every target that has not failed', () => {
    const { begin, time } = setUpOpen();
    time.elapsedMs = 2000;
    const admitted = (target?: string) => begin(target) !== undefined;
    expect([admitted(), admitted(), admitted('b'), admitted('b')]).toEqual([true, false, true, false]);
    time.elapsedMs = 3000;
    expect([admitted(), admitted()]).toEqual([true, false]);
  });

  it('opens again when a trial fails, each time for twice as long, up to a maximum', () => {
    const { breaker, fail, time, changes } = setUpOpen();
    const openMs: number[] = [];
    for (let trial = 0; trial < 5; trial++) {
      const sinceMs = time.elapsedMs;
      while (breaker.state === 'open') time.elapsedMs += 500;
      openMs.push(time.elapsedMs - sinceMs);
      fail();
      expect(breaker.state).toBe('open');
    }
    expect(openMs).toEqual([2000, 4000, 8000, 8000, 8000]);
    expect(changes).toEqual(['opened']);
  });

  it('closes when a trial succeeds, and then opens for the shortest time', () => {
    const { breaker, begin, fail, time } = setUpOpen();
    time.elapsedMs = 2000;
    fail();
    time.elapsedMs = 6000;
    begin()!.succeeded();
    expect(breaker.state).toBe('closed');
    for (let i = 0; i < 3; i++) fail();
    time.elapsedMs = 8000;
    expect(breaker.state).toBe('half-open');
  });
});
