import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup.js';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { patchFetchWait } from '../../../shared/log/kafka/kafkajs-patches/fetch-wait.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a kafkajs fetch waits for a short time while partitions are paused and resumed', async () => {
  patchFetchWait();
  const group = groupWithoutPartitions();
  expect(await fetchMs(group)).toBe(200);
  group.resume([{ topic: 't', partitions: [0] }]);
  expect(await fetchMs(group)).toBe(10);
  await vi.advanceTimersByTimeAsync(900);
  expect(await fetchMs(group)).toBe(10);
  await vi.advanceTimersByTimeAsync(100);
  expect(await fetchMs(group)).toBe(200);
  group.pause([{ topic: 't', partitions: [0] }]);
  expect(await fetchMs(group)).toBe(10);
});

/** Returns a member of a group whose fetches only wait. */
function groupWithoutPartitions(): ConsumerGroup {
  return Object.assign(Object.create(ConsumerGroup.prototype) as ConsumerGroup, {
    maxWaitTime: 200,
    logger: { info: () => {} },
    cluster: { refreshMetadataIfNecessary: async () => {} },
    offsetManager: { committedOffsets: () => ({}) },
    subscriptionState: { assigned: () => [], pause: () => {}, resume: () => {} },
    checkForStaleAssignment: () => {},
    filterPartitionsByNode: () => [],
    seekOffsets: async () => {},
    getActiveTopicPartitions: () => ({}),
  });
}

async function fetchMs(group: ConsumerGroup): Promise<number> {
  const startMs = performance.now();
  let endMs: number | undefined;
  const fetched = group.fetch(0).then(() => {
    endMs = performance.now();
  });
  while (endMs === undefined) await vi.advanceTimersByTimeAsync(1);
  await fetched;
  return Math.round(endMs - startMs);
}
