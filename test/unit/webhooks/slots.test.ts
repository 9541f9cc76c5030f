import { describe, expect, it } from 'vitest';
import { EndpointSlots, Slots } from '../../../workers/webhooks/slots.ts';

describe('the slots of exchanges', () => {
  const slotsOf = (slots: Slots, tenantId: string, failing = false): EndpointSlots => {
    const endpoint = new EndpointSlots(slots, tenantId);
    endpoint.failing = failing;
    return endpoint;
  };
  const takeAll = (endpoint: EndpointSlots): number => {
    endpoint.hold(endpoint.exchangesMax(1000), 0);
    return endpoint.exchanges;
  };

  it('give one tenant at most half', () => {
    expect(takeAll(slotsOf(new Slots(64), 'a'))).toBe(32);
  });

  it('give failing endpoints of all tenants together at most half', () => {
    const slots = new Slots(64);
    const held = ['a', 'b', 'c', 'd'].map((tenantId) => takeAll(slotsOf(slots, tenantId, true)));
    expect(held.reduce((sum, count) => sum + count)).toBe(32);
    expect(slotsOf(slots, 'e').exchangesMax(1000)).toBe(16);
  });

  it('are taken from an endpoint that begins to fail, if failing endpoints hold more than half', () => {
    const slots = new Slots(64);
    const healthy = slotsOf(slots, 'a');
    takeAll(healthy);
    expect(takeAll(slotsOf(slots, 'b', true))).toBe(16);
    healthy.failing = true;
    expect(healthy.exchangesMax(1000)).toBe(16);
    healthy.failing = false;
    expect(healthy.exchangesMax(1000)).toBe(32);
  });

  it('reserve the last quarter for endpoints that hold none', () => {
    const slots = new Slots(64);
    takeAll(slotsOf(slots, 'a'));
    const second = slotsOf(slots, 'b');
    expect(takeAll(second)).toBe(16);
    expect(second.exchangesMax(1000)).toBe(16);
    expect(takeAll(slotsOf(slots, 'c'))).toBe(1);
    // Its slots exceed three quarters by one now.
    expect(second.exchangesMax(1000)).toBe(15);
  });

  it('are free again once released', () => {
    const slots = new Slots(4);
    const endpoint = slotsOf(slots, 'a', true);
    endpoint.hold(2, 1);
    expect([slots.held, slotsOf(slots, 'b', true).exchangesMax(9)]).toEqual([3, 0]);
    endpoint.hold(0, 0);
    expect([slots.held, slotsOf(slots, 'b', true).exchangesMax(9)]).toEqual([0, 2]);
  });
});

describe('claims ahead', () => {
  it('of an endpoint leave as much to others, which share it', () => {
    const slots = new Slots(64);
    const endpoints = Array.from({ length: 20 }, (_, i) => new EndpointSlots(slots, `t${i}`));
    for (let round = 0; round < 50; round += 1) {
      for (const endpoint of endpoints) endpoint.hold(1, endpoint.aheadMax(1000));
    }
    const ahead = endpoints.map((endpoint) => endpoint.ahead);
    expect(Math.max(...ahead) - Math.min(...ahead)).toBeLessThanOrEqual(2);
    expect(Math.min(...ahead)).toBeGreaterThanOrEqual(10);
  });

  it('of one tenant are at most half', () => {
    const slots = new Slots(64);
    for (let i = 0; i < 20; i += 1) {
      const endpoint = new EndpointSlots(slots, 'a');
      endpoint.hold(1, endpoint.aheadMax(1000));
    }
    expect(new EndpointSlots(slots, 'a').aheadMax(1000)).toBe(0);
    expect(new EndpointSlots(slots, 'b').aheadMax(1000)).toBe(64);
  });

  it('take no slots of exchanges', () => {
    const slots = new Slots(64);
    new EndpointSlots(slots, 'a').hold(0, 128);
    expect(new EndpointSlots(slots, 'b').exchangesMax(1000)).toBe(32);
  });
});
