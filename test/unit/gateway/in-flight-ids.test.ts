import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type ClaimResult, InFlightIds } from '../../../gateway/accept/in-flight-ids.ts';

function setUp(options: { recentMax?: number; memoryMs?: number } = {}) {
  const time = { elapsedMs: 0 };
  const inFlightIds = new InFlightIds({ elapsedMs: () => time.elapsedMs, ...options });

  /** Returns the state of an id. An id that can be claimed is settled with the result. */
  function settle(tenantId: string, id: string, result: ClaimResult, contentHash = 'x') {
    const claim = inFlightIds.claim({ tenantId, kind: 'message-sent', id }, contentHash);
    if (claim.state === 'claimed') claim.settle(result);
    return claim.state;
  }

  return {
    time,
    settle,
    accept: (tenantId: string, id: string) => settle(tenantId, id, { outcome: 'accepted' }),
    /** Returns the state for other content, without changing any id's state. */
    probe: (tenantId: string, id: string) => settle(tenantId, id, { outcome: 'failed' }, 'other'),
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

describe('the in-flight and recent ids', () => {
  it('evict the oldest recent id when they are full', () => {
    const { accept } = setUp({ recentMax: 2 });
    expect(['a', 'b', 'c'].map((id) => accept('tenant', id))).toEqual(['claimed', 'claimed', 'claimed']);
    expect(['b', 'c', 'a'].map((id) => accept('tenant', id))).toEqual(['known', 'known', 'claimed']);
  });

  it('forget a recent id after the memory time', () => {
    const { accept, time } = setUp({ memoryMs: 100 });
    accept('tenant', 'a');
    time.elapsedMs = 99;
    expect(accept('tenant', 'a')).toBe('known');
    time.elapsedMs = 100;
    expect(accept('tenant', 'a')).toBe('claimed');
  });

  it('forget a recent id after 10 minutes although the wall clock is set back 1 day', () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const inFlightIds = new InFlightIds();
    const id = { tenantId: 'tenant', kind: 'message-sent', id: 'a' } as const;
    const first = inFlightIds.claim(id, 'x');
    if (first.state === 'claimed') first.settle({ outcome: 'unknown' });
    vi.setSystemTime(Date.now() - 86_400_000);
    vi.advanceTimersByTime(599_999);
    expect(inFlightIds.claim(id, 'y').state).toBe('unavailable');
    vi.advanceTimersByTime(1);
    expect(inFlightIds.claim(id, 'y').state).toBe('claimed');
  });

  it('keep the ids of a quiet tenant while a busy tenant overflows them', () => {
    const memory = setUp({ recentMax: 100_000 });
    memory.accept('quiet', 'm1');
    memory.settle('quiet', 'm2', { outcome: 'unknown' });
    acceptMany(memory, 'busy', 100_001);
    expect(memory.probe('quiet', 'm1')).toBe('conflict');
    expect(memory.probe('quiet', 'm2')).toBe('unavailable');
    expect(memory.probe('busy', '2')).toBe('claimed');
    expect(memory.probe('busy', '3')).toBe('conflict');
  });

  it('evict ids of the tenant with the most for ids of another tenant', () => {
    const memory = setUp({ recentMax: 100 });
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

  it.each([1, 2, 1000])('keep no more than 5000 ids of %i tenants', (tenants) => {
    const memory = setUp({ recentMax: 5000 });
    for (let id = 0; id < 12_000; id++) memory.accept(`tenant ${id % tenants}`, `${id}`);
    const remembered = Array.from({ length: 12_000 }, (_, id) =>
      memory.probe(`tenant ${id % tenants}`, `${id}`),
    );
    expect(remembered.filter((state) => state === 'conflict')).toHaveLength(5000);
    expect(remembered.lastIndexOf('claimed')).toBe(6999);
  });

  it('have room again once the ids of an idle tenant have expired', () => {
    const memory = setUp({ recentMax: 100, memoryMs: 100 });
    acceptMany(memory, 'silent', 50);
    memory.time.elapsedMs = 100;
    acceptMany(memory, 'busy', 100);
    expect(countRemembered(memory, 'busy', 100)).toBe(100);
    expect(countRemembered(memory, 'silent', 50)).toBe(0);
  });

  it('replace the result of an id by that of a retry', () => {
    const memory = setUp({ recentMax: 3 });
    for (const id of ['a', 'b', 'c']) memory.settle('tenant', id, { outcome: 'unknown' });
    memory.accept('tenant', 'a');
    expect(['a', 'b', 'c'].map((id) => memory.probe('tenant', id))).toEqual([
      'conflict',
      'unavailable',
      'unavailable',
    ]);
    memory.accept('tenant', 'd');
    expect(['a', 'b', 'c', 'd'].map((id) => memory.probe('tenant', id))).toEqual([
      'conflict',
      'claimed',
      'unavailable',
      'conflict',
    ]);
  });
});
