import { expect, test } from 'vitest';
import { EndpointQueue } from '../../../workers/webhooks/endpoint-queue.ts';
import { EndpointSlots, Slots } from '../../../workers/webhooks/slots.ts';
import { TaskQueue, workOf } from '../../../workers/webhooks/task-queue.ts';

type Delivery = Parameters<EndpointQueue['add']>[0];

const deliveryOf = (messageId: string, claimedAtMs = 0): Delivery => {
  const times = { sendAtMs: claimedAtMs, sendUntilMs: claimedAtMs + 3000 };
  return { messageId, ...times, body: Buffer.alloc(400) } as unknown as Delivery;
};

function endpointOf(tenantId: string, slots = new Slots(256)): EndpointQueue {
  return new EndpointQueue({ tenantId, endpointId: 'e' }, 16, new EndpointSlots(slots, tenantId));
}

/** Adds endpoints of tenants of their own to a queue. */
function queueOf(count: number, slots = new Slots(256)) {
  const tasks = new TaskQueue();
  const endpoints = Array.from({ length: count }, (_, i) => endpointOf(`t${i}`, slots));
  for (const endpoint of endpoints) tasks.add(endpoint);
  return { tasks, endpoints };
}

test('a dispatch takes several endpoints, each with slots', () => {
  const { tasks, endpoints } = queueOf(3);
  const taken = tasks.take();
  expect(taken.map(({ endpoint }) => endpoint)).toEqual(endpoints);
  for (const { limit } of taken) expect(limit).toBeGreaterThanOrEqual(16);
  expect(tasks.take()).toEqual([]);
});

test('an endpoint whose last dispatch failed together with others is taken alone', () => {
  const { tasks, endpoints } = queueOf(4);
  endpoints[0]!.alone = true;
  endpoints[2]!.alone = true;
  const dispatches = [tasks.take(), tasks.take(), tasks.take(), tasks.take()];
  expect(dispatches.map((taken) => taken.map(({ endpoint }) => endpoint.tenantId))).toEqual([
    ['t0'],
    ['t1', 't3'],
    ['t2'],
    [],
  ]);
});

test('a closing dispatcher takes only endpoints with results, and no slots', () => {
  const { tasks, endpoints } = queueOf(2);
  tasks.closing = true;
  expect(tasks.take()).toEqual([]);
  const outcome = { kind: 'delivered', status: 200, answer: Buffer.alloc(0) } as const;
  const delivery = deliveryOf('m');
  endpoints[1]!.add(delivery, 0);
  endpoints[1]!.takeToSend(0);
  endpoints[1]!.finish({ delivery, startedAtMs: 0, finishedAtMs: 1, outcome });
  expect(tasks.take()).toMatchObject([{ endpoint: endpoints[1], limit: 0 }]);
});

/** Sends and records what a dispatch claimed, each exchange in `tookMs`. */
function deliverAll(endpoint: EndpointQueue, count: number, tookMs: number): void {
  const outcome = { kind: 'delivered', status: 200, answer: Buffer.alloc(0) } as const;
  const result = { concurrency: 16, shared: false, failing: false, ratePerSecond: null };
  endpoint.succeed(endpoint.takeUnrecorded(), result);
  for (let i = 0; i < count; i += 1) endpoint.add(deliveryOf(`m${i}`), 0);
  endpoint.releaseUnneeded();
  for (let delivery = endpoint.takeToSend(0); delivery; delivery = endpoint.takeToSend(0)) {
    endpoint.finish({ delivery, startedAtMs: 0, finishedAtMs: tookMs, outcome });
  }
}

test('a fast endpoint claims hundreds ahead, a slow one at most 150 ms of work', () => {
  const [fast, slow] = [1, 100].map((tookMs) => {
    const endpoint = endpointOf('t');
    let limit = 0;
    for (let dispatch = 0; dispatch < 10; dispatch += 1) {
      ({ limit } = endpoint.reserve({ mayClaim: true }));
      deliverAll(endpoint, limit, tookMs);
    }
    return limit;
  });
  expect(fast).toBe(16 * 17);
  expect(slow).toBeGreaterThan(16);
  expect(slow).toBeLessThanOrEqual(16 + 24);
});

test('fast endpoints leave slots to others', () => {
  const slots = new Slots(64);
  const fast = [endpointOf('a', slots), endpointOf('b', slots)];
  for (let dispatch = 0; dispatch < 10; dispatch += 1) {
    for (const endpoint of fast) deliverAll(endpoint, endpoint.reserve({ mayClaim: true }).limit, 1);
  }
  expect(endpointOf('c', slots).reserve({ mayClaim: true }).limit).toBeGreaterThanOrEqual(16);
});

test('a dispatch that failed keeps the slots of what is claimed', () => {
  const slots = new Slots(64);
  const endpoint = endpointOf('a', slots);
  endpoint.reserve({ mayClaim: true });
  deliverAll(endpoint, 3, 1);
  endpoint.reserve({ mayClaim: true });
  const unrecorded = endpoint.takeUnrecorded();
  endpoint.restore(unrecorded);
  expect([endpoint.held, slots.held]).toEqual([3, 3]);
});

test.each([
  ['is sent although its transaction took 2.5 s', 2500, 2500, 0, true],
  ['is given back after a second in the queue', 2500, 1499, 0, false],
  ['is given back if little of its lease is left', 3100, 3100, 0, false],
])('a claimed delivery %s', (_, nowMs, addedAtMs, claimedAtMs, isSent) => {
  const endpoint = endpointOf('t');
  const delivery = deliveryOf('m', claimedAtMs);
  endpoint.add(delivery, addedAtMs);
  expect(endpoint.takeToSend(nowMs)).toBe(isSent ? delivery : undefined);
  expect(endpoint.takeUnrecorded().unsent).toEqual(isSent ? [] : [delivery]);
});

test('a dispatch may claim again what it gives back', () => {
  const endpoint = endpointOf('t');
  endpoint.add(deliveryOf('given'), 0);
  endpoint.giveBackWaiting();
  endpoint.add(deliveryOf('kept'), 0);
  const { isClaimed } = workOf({ endpoint, unrecorded: endpoint.takeUnrecorded(), limit: 0, ahead: 0 });
  expect([isClaimed('given'), isClaimed('kept')]).toEqual([false, true]);
});

test('an endpoint with a rate sends each delivery at its time, and holds few slots while it waits', () => {
  const endpoint = endpointOf('t');
  const result = { concurrency: 16, shared: false, failing: false, ratePerSecond: 10 };
  const outcome = { kind: 'delivered', status: 200, answer: Buffer.alloc(0) } as const;
  for (let i = 0; i < 60; i += 1) {
    const delivery = { ...deliveryOf(`m${i}`, 100 * i), sendAtMs: 100 * i };
    endpoint.succeed(endpoint.takeUnrecorded(), result);
    endpoint.add(delivery, 100 * i);
    expect(endpoint.takeToSend(100 * i - 1)).toBeUndefined();
    expect(endpoint.nextSendAtMs).toBe(100 * i);
    expect(endpoint.takeToSend(100 * i)).toBe(delivery);
    endpoint.finish({ delivery, startedAtMs: 0, finishedAtMs: 5, outcome });
  }
  endpoint.succeed(endpoint.takeUnrecorded(), result);
  expect(endpoint.reserve({ mayClaim: true }).exchanges).toBeLessThanOrEqual(2);
  endpoint.throttled = true;
  expect([endpoint.claimable, endpoint.reserve({ mayClaim: true }).limit, endpoint.idle]).toEqual([
    0,
    0,
    false,
  ]);
});
