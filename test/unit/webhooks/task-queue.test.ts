import { expect, test } from 'vitest';
import { EndpointQueue } from '../../../workers/webhooks/endpoint-queue.ts';
import { Slots } from '../../../workers/webhooks/slots.ts';
import { TaskQueue } from '../../../workers/webhooks/task-queue.ts';

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
  endpoints[1]!.add(delivery, () => {});
  endpoints[1]!.takeToSend(0);
  endpoints[1]!.finish({ delivery, startedAtMs: 0, finishedAtMs: 1, outcome });
  expect(tasks.take()).toMatchObject([{ endpoint: endpoints[1], releases: [] }]);
});
