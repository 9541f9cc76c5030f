import { expect, test } from 'vitest';
import { EndpointQueue } from '../../../workers/webhooks/endpoint-queue.ts';
import { Slots } from '../../../workers/webhooks/slots.ts';
import { TaskQueue, workOf } from '../../../workers/webhooks/task-queue.ts';

/** Adds endpoints of tenants of their own to a queue. */
function queueOf(count: number) {
  const tasks = new TaskQueue(new Slots(256));
  const endpoints = Array.from(
    { length: count },
    (_, i) => new EndpointQueue({ tenantId: `t${i}`, endpointId: 'e' }, 16, false),
  );
  for (const endpoint of endpoints) tasks.add(endpoint);
  return { tasks, endpoints };
}

test('a dispatch takes several endpoints, each with slots', () => {
  const { tasks, endpoints } = queueOf(3);
  const taken = tasks.take();
  expect(taken.map(({ endpoint }) => endpoint)).toEqual(endpoints);
  for (const { releases } of taken) expect(releases.length).toBeGreaterThanOrEqual(16);
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
  const delivery = { messageId: 'm' } as Parameters<EndpointQueue['add']>[0];
  endpoints[1]!.add(delivery, 0, () => {});
  endpoints[1]!.takeToSend(0);
  endpoints[1]!.finish({ delivery, startedAtMs: 0, finishedAtMs: 1, outcome });
  expect(tasks.take()).toMatchObject([{ endpoint: endpoints[1], releases: [] }]);
});

test('fast endpoints claim ahead only up to a quarter of the slots, so that others get theirs', () => {
  const { tasks } = queueOf(6);
  const taken = tasks.take();
  const counts = taken.map(({ releases }) => releases.length);
  // Two claim ahead until 64 of 256 are held; each of the others takes as many as it may have exchanges.
  expect(counts).toEqual([32, 32, 16, 16, 16, 16]);
});

test.each([
  ['is sent although its transaction took 2.5 s', 2500, 2500, 0, true],
  ['is given back after a second in the queue', 2500, 1499, 0, false],
  ['is given back if little of its lease is left', 3100, 3100, 0, false],
])('a claimed delivery %s', (_, nowMs, addedAtMs, claimedAtMs, isSent) => {
  const endpoint = new EndpointQueue({ tenantId: 't', endpointId: 'e' }, 16, false);
  const delivery = { messageId: 'm', claimedAtMs } as Parameters<EndpointQueue['add']>[0];
  endpoint.add(delivery, addedAtMs, () => {});
  expect(endpoint.takeToSend(nowMs)).toBe(isSent ? delivery : undefined);
  expect(endpoint.takeUnrecorded().unsent).toEqual(isSent ? [] : [delivery]);
});

test('a dispatch may claim again what it gives back', () => {
  const endpoint = new EndpointQueue({ tenantId: 't', endpointId: 'e' }, 16, false);
  const [given, kept] = ['given', 'kept'].map(
    (messageId) => ({ messageId, claimedAtMs: 0 }) as Parameters<EndpointQueue['add']>[0],
  );
  endpoint.add(given!, 0, () => {});
  endpoint.giveBackWaiting();
  endpoint.add(kept!, 0, () => {});
  const { isClaimed } = workOf({ endpoint, unrecorded: endpoint.takeUnrecorded(), releases: [] });
  expect([isClaimed('given'), isClaimed('kept')]).toEqual([false, true]);
});
