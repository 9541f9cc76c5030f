import { describe, expect, test } from 'vitest';
import { sendTimes } from '../../../workers/webhooks/rate.ts';

const NOW_MS = 1_000_000;

describe('the times of attempts at a rate', () => {
  test('are evenly spaced, and may be claimed half a second before', () => {
    const times = sendTimes({ perSecond: 10, nextSendAtMs: null }, [], NOW_MS);
    expect(times.count).toBe(6);
    expect([0, 1, 5].map((index) => times.at(index) - NOW_MS)).toEqual([0, 100, 500]);
    expect(times.waitUntilMs(5)).toBeUndefined();
    expect(times.waitUntilMs(6)).toBe(NOW_MS + 600 - 250);
    expect(times.after(6)).toBe(NOW_MS + 600);
  });

  test('continue after those that were taken, and do not catch up', () => {
    const timesFrom = (nextSendAtMs: number) => sendTimes({ perSecond: 10, nextSendAtMs }, [], NOW_MS);
    expect(timesFrom(NOW_MS + 450)).toMatchObject({ count: 1 });
    expect(timesFrom(NOW_MS + 501)).toMatchObject({ count: 0 });
    expect(timesFrom(NOW_MS + 501).waitUntilMs(0)).toBe(NOW_MS + 251);
    expect(timesFrom(NOW_MS - 60_000).at(0)).toBe(NOW_MS);
  });

  test('are used again by deliveries that were given back, unless later ones were taken', () => {
    const rate = { perSecond: 10, nextSendAtMs: NOW_MS + 500 };
    expect(sendTimes(rate, [NOW_MS + 300, NOW_MS + 400], NOW_MS).at(0)).toBe(NOW_MS + 300);
    expect(sendTimes(rate, [NOW_MS + 200, NOW_MS + 300], NOW_MS).at(0)).toBe(NOW_MS + 500);
  });

  test('begin now after a stored time of a clock that was far ahead', () => {
    expect(sendTimes({ perSecond: 1, nextSendAtMs: NOW_MS + 3_600_000 }, [], NOW_MS).at(0)).toBe(NOW_MS);
  });
});
