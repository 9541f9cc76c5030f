import { describe, expect, it } from 'vitest';
import { Slots } from '../../../workers/webhooks/slots.ts';

describe('the slots of exchanges', () => {
  const user = (tenantId: string, held = 0, failing = false) => ({ tenantId, held, failing });
  const takeAll = (slots: Slots, tenantId: string, failing = false): number => {
    let held = 0;
    while (slots.free(user(tenantId, held, failing)) > 0) {
      slots.take(user(tenantId, held, failing));
      held += 1;
    }
    return held;
  };

  it('give one tenant at most half', () => {
    expect(takeAll(new Slots(64), 'a')).toBe(32);
  });

  it('give failing endpoints of all tenants together at most half', () => {
    const slots = new Slots(64);
    const held = ['a', 'b', 'c', 'd'].map((tenantId) => takeAll(slots, tenantId, true));
    expect(held.reduce((sum, count) => sum + count)).toBe(32);
    expect(slots.free(user('e'))).toBe(16);
  });

  it('reserve the last quarter for endpoints that hold none', () => {
    const slots = new Slots(64);
    takeAll(slots, 'a');
    takeAll(slots, 'b');
    expect(slots.held).toBe(48);
    expect(slots.free(user('c', 1))).toBe(0);
    expect(slots.free(user('c', 0))).toBe(1);
  });

  it('are free again once released', () => {
    const slots = new Slots(4);
    const release = slots.take(user('a', 0, true));
    expect(slots.held).toBe(1);
    release();
    expect([slots.held, slots.free(user('a', 0, true))]).toEqual([0, 2]);
  });
});
