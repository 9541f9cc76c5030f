import { describe, expect, test } from 'vitest';
import { Turns } from '../../../workers/webhooks/fair-queue.ts';
import { Slots } from '../../../workers/webhooks/slots.ts';

describe('turns', () => {
  const take = (turns: Turns<string>, count: number) =>
    Array.from({ length: count }, () => turns.take(() => true));

  test('tenants take turns, and so do the items of one', () => {
    const turns = new Turns<string>();
    for (const item of ['a1', 'a2', 'a3', 'a1']) turns.add('a', item);
    turns.add('b', 'b1');
    expect(take(turns, 5)).toEqual(['a1', 'b1', 'a2', 'a3', undefined]);
  });

  test('who may not go keeps the place', () => {
    const turns = new Turns<string>();
    turns.add('a', 'a1');
    turns.add('b', 'b1');
    expect(turns.take((item) => item !== 'a1')).toBe('b1');
    turns.add('b', 'b1');
    expect(take(turns, 2)).toEqual(['a1', 'b1']);
  });
});

describe('slots', () => {
  const user = (tenantId: string, held = 0, failing = false) => ({ tenantId, held, failing });
  const takeAll = (slots: Slots, tenantId: string, failing = false): number => {
    let held = 0;
    while (slots.free(user(tenantId, held, failing)) > 0) {
      slots.take(user(tenantId, held, failing));
      held += 1;
    }
    return held;
  };

  test('one tenant gets half', () => {
    expect(takeAll(new Slots(64), 'a')).toBe(32);
  });

  test('failing endpoints together get half, whoever owns them', () => {
    const slots = new Slots(64);
    const held = ['a', 'b', 'c', 'd'].map((tenantId) => takeAll(slots, tenantId, true));
    expect(held.reduce((sum, count) => sum + count)).toBe(32);
    expect(slots.free(user('e'))).toBe(16);
  });

  test('the last quarter is for endpoints that have none', () => {
    const slots = new Slots(64);
    takeAll(slots, 'a');
    takeAll(slots, 'b');
    expect(slots.held).toBe(48);
    expect(slots.free(user('c', 1))).toBe(0);
    expect(slots.free(user('c', 0))).toBe(1);
  });

  test('what is given back is free again', () => {
    const slots = new Slots(4);
    const release = slots.take(user('a', 0, true));
    expect(slots.held).toBe(1);
    release();
    expect([slots.held, slots.free(user('a', 0, true))]).toEqual([0, 2]);
  });
});
