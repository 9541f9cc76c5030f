import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { patchIdleQueueTimer } from '../../../shared/log/kafka/kafkajs-patches/idle-queue-timer.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a kafkajs request queue has a timer only while a request waits', () => {
  patchIdleQueueTimer();
  const pending: unknown[] = [];
  const checkPendingRequests = vi.fn();
  const queue = Object.assign(Object.create(RequestQueue.prototype) as RequestQueue, {
    pending,
    checkPendingRequests,
    throttledUntil: -1,
    throttleCheckTimeoutId: null,
  });
  queue.scheduleCheckPendingRequests();
  expect(vi.getTimerCount()).toBe(0);
  pending.push({});
  queue.scheduleCheckPendingRequests();
  queue.scheduleCheckPendingRequests();
  expect(vi.getTimerCount()).toBe(1);
  vi.runAllTimers();
  expect(checkPendingRequests).toHaveBeenCalledTimes(1);
  expect(vi.getTimerCount()).toBe(0);
});
