import { describe, expect, it } from 'vitest';
import { FairQueue } from '../../shared/fair-queue.ts';

describe('the fair queue', () => {
  const take = (queue: FairQueue<string>, count: number) =>
    Array.from({ length: count }, () => queue.take(() => true));

  it('serves tenants round-robin, and the items of each in order and once', () => {
    const queue = new FairQueue<string>();
    for (const item of ['a1', 'a2', 'a3', 'a1']) queue.add('a', item);
    queue.add('b', 'b1');
    expect(take(queue, 5)).toEqual(['a1', 'b1', 'a2', 'a3', undefined]);
  });

  it('keeps the place of an item that is not ready', () => {
    const queue = new FairQueue<string>();
    queue.add('a', 'a1');
    queue.add('b', 'b1');
    expect(queue.take((item) => item !== 'a1')).toBe('b1');
    queue.add('b', 'b1');
    expect(take(queue, 2)).toEqual(['a1', 'b1']);
  });

  it('forgets a removed item, and a tenant whose only item is removed', () => {
    const queue = new FairQueue<string>();
    for (const item of ['a1', 'a2']) queue.add('a', item);
    queue.add('b', 'b1');
    for (const [tenantId, item] of ['a:a1', 'b:b1', 'c:c1'].map((text) => text.split(':'))) {
      queue.remove(tenantId!, item!);
    }
    expect([queue.tenants, queue.takeAll()]).toEqual([1, ['a2']]);
  });

  it('takes several items of one tenant in a turn and moves the tenant to the back', () => {
    const queue = new FairQueue<string>();
    for (const item of ['a1', 'a2', 'a3']) queue.add('a', item);
    queue.add('b', 'b1');
    expect(queue.takeTurn((items) => [...items].slice(0, 2))).toEqual(['a1', 'a2']);
    expect(queue.takeAll()).toEqual(['b1', 'a3']);
    expect(queue.tenants).toBe(0);
  });
});
