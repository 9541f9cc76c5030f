import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createReservations, type Settlement } from '../../../gateway/accept/in-flight-ids.ts';

function setUp(options: { settledMax?: number; memoryMs?: number } = {}) {
  const time = { elapsedMs: 0 };
  const reservations = createReservations({ elapsedMs: () => time.elapsedMs, ...options });

  /** Tells the state of an id; one that is free or may be tried again is settled so. */
  function settle(tenantId: string, id: string, settlement: Settlement, contentHash = 'x') {
    const reservation = reservations.reserve({ tenantId, kind: 'message-sent', id }, contentHash);
    if (reservation.state === 'reserved') reservation.settle(settlement);
    return reservation.state;
  }

  return {
    time,
    settle,
    accept: (tenantId: string, id: string) => settle(tenantId, id, { as: 'accepted' }),
    /** The state for other content, which leaves what is remembered as it is. */
    probe: (tenantId: string, id: string) => settle(tenantId, id, { as: 'failed' }, 'other'),
  };
}

type Memory = ReturnType<typeof setUp>;

function acceptMany({ accept }: Memory, tenantId: string, count: number, prefix = ''): void {
  for (let id = 0; id < count; id++) accept(tenantId, `${prefix}${id}`);
}

function countRemembered({ probe }: Memory, tenantId: string, count: number, prefix = ''): number {
  let remembered = 0;
  for (let id = 0; id < count; id++) {
    if (probe(tenantId, `${prefix}${id}`) === 'conflict') remembered++;
  }
  return remembered;
}

describe('the memory of ids', () => {
  it('loses the oldest first where it is full', () => {
    const { accept } = setUp({ settledMax: 2 });
    expect(['a', 'b', 'c'].map((id) => accept('tenant', id))).toEqual(['reserved', 'reserved', 'reserved']);
    expect(['b', 'c', 'a'].map((id) => accept('tenant', id))).toEqual(['accepted', 'accepted', 'reserved']);
  });

  it('forgets an id after a while', () => {
    const { accept, time } = setUp({ memoryMs: 100 });
    accept('tenant', 'a');
    time.elapsedMs = 99;
    expect(accept('tenant', 'a')).toBe('accepted');
    time.elapsedMs = 100;
    expect(accept('tenant', 'a')).toBe('reserved');
  });

  it('forgets an id after ten minutes, also where the clock is set back by a day meanwhile', () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const reservations = createReservations();
    const id = { tenantId: 'tenant', kind: 'message-sent', id: 'a' } as const;
    const first = reservations.reserve(id, 'x');
    if (first.state === 'reserved') first.settle({ as: 'unknown' });
    vi.setSystemTime(Date.now() - 86_400_000);
    vi.advanceTimersByTime(599_999);
    expect(reservations.reserve(id, 'y').state).toBe('unavailable');
    vi.advanceTimersByTime(1);
    expect(reservations.reserve(id, 'y').state).toBe('reserved');
  });

  it('keeps the ids of a quiet tenant while a busy one overflows it', () => {
    const memory = setUp();
    memory.accept('quiet', 'm1');
    memory.settle('quiet', 'm2', { as: 'unknown' });
    acceptMany(memory, 'busy', 200_001);
    expect(memory.probe('quiet', 'm1')).toBe('conflict');
    expect(memory.probe('quiet', 'm2')).toBe('unavailable');
    expect(memory.probe('busy', '2')).toBe('reserved');
    expect(memory.probe('busy', '3')).toBe('conflict');
  });

  it('makes room for a tenant from the one that holds the most', () => {
    const memory = setUp({ settledMax: 100 });
    acceptMany(memory, 'most', 70);
    acceptMany(memory, 'some', 30);
    acceptMany(memory, 'new', 20);
    expect(countRemembered(memory, 'new', 20)).toBe(20);
    expect(countRemembered(memory, 'some', 30)).toBe(30);
    expect(countRemembered(memory, 'most', 70)).toBe(50);
    acceptMany(memory, 'new', 1000, 'more');
    expect(countRemembered(memory, 'some', 30)).toBe(30);
    expect(countRemembered(memory, 'most', 70)).toBe(35);
  });

  it.each([1, 2, 1000])('holds no more than its bound with tenants: %i', (tenants) => {
    const memory = setUp({ settledMax: 5000 });
    for (let id = 0; id < 12_000; id++) memory.accept(`tenant ${id % tenants}`, `${id}`);
    const remembered = Array.from({ length: 12_000 }, (_, id) =>
      memory.probe(`tenant ${id % tenants}`, `${id}`),
    );
    expect(remembered.filter((state) => state === 'conflict')).toHaveLength(5000);
    expect(remembered.lastIndexOf('reserved')).toBe(6999);
  });

  it('has room again once the ids of a silent tenant are old', () => {
    const memory = setUp({ settledMax: 100, memoryMs: 100 });
    acceptMany(memory, 'silent', 50);
    memory.time.elapsedMs = 100;
    acceptMany(memory, 'busy', 100);
    expect(countRemembered(memory, 'busy', 100)).toBe(100);
    expect(countRemembered(memory, 'silent', 50)).toBe(0);
  });

  it('takes another settlement of an id in place of the first', () => {
    const memory = setUp({ settledMax: 3 });
    for (const id of ['a', 'b', 'c']) memory.settle('tenant', id, { as: 'unknown' });
    memory.accept('tenant', 'a');
    expect(['a', 'b', 'c'].map((id) => memory.probe('tenant', id))).toEqual([
      'conflict',
      'unavailable',
      'unavailable',
    ]);
    memory.accept('tenant', 'd');
    expect(['a', 'b', 'c', 'd'].map((id) => memory.probe('tenant', id))).toEqual([
      'conflict',
      'reserved',
      'unavailable',
      'conflict',
    ]);
  });
});
