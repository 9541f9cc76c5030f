import { describe, expect, test } from 'vitest';
import { ReadAhead } from '../../../workers/webhooks/read-ahead.ts';
import type { DueDelivery } from '../../../workers/webhooks/sql/queue.ts';

const due = (seq: number, orderingKey: string | null, heldBy: number | null = null): DueDelivery => ({
  createdAtMs: 0,
  messageId: `m${seq}`,
  orderingKey,
  seq: BigInt(seq),
  dueAtMs: seq,
  attempts: 0,
  leaseExpired: false,
  heldBy: heldBy === null ? null : BigInt(heldBy),
  released: false,
});
const ids = (deliveries: readonly DueDelivery[]) => deliveries.map(({ messageId }) => messageId);
const notClaimed = () => false;

/** Returns a buffer with one full page. */
function readAheadOf(...page: readonly DueDelivery[]): ReadAhead {
  const readAhead = new ReadAhead();
  readAhead.beginPage(0);
  expect(readAhead.add(page, page.length, notClaimed)).toEqual([]);
  return readAhead;
}

describe('deliveries that were read ahead', () => {
  const first = due(1, 'A');
  const second = due(2, 'A', 1);
  const third = due(3, 'A', 2);

  test('of a conversation are taken one after the other, each when the one before has ended', () => {
    const readAhead = readAheadOf(first, due(4, null), second, third);
    expect(ids(readAhead.take(9))).toEqual(['m1', 'm4']);
    readAhead.resolve(first, true);
    expect(ids(readAhead.take(9))).toEqual(['m2']);
    readAhead.resolve(second, true);
    expect(ids(readAhead.take(9))).toEqual(['m3']);
  });

  test('are forgotten and read again if the one before them did not end', () => {
    const readAhead = readAheadOf(first, second, third);
    readAhead.take(1);
    readAhead.resolve(first, false);
    expect([readAhead.ready, readAhead.hasUnread, readAhead.pageEnd]).toEqual([0, true, undefined]);
    readAhead.beginPage(0);
    // The first one waits for its retry, so that the others are parked.
    expect(ids(readAhead.add([second, third], 200, notClaimed))).toEqual(['m2', 'm3']);
  });

  test('follow a claimed delivery that is read before they are', () => {
    const readAhead = readAheadOf(first);
    readAhead.take(1);
    readAhead.beginPage(0);
    expect(readAhead.add([second], 200, (id) => id === 'm1')).toEqual([]);
    expect(readAhead.ready).toBe(0);
    readAhead.resolve(first, true);
    expect(ids(readAhead.take(9))).toEqual(['m2']);
  });

  test('are parked if what holds them was not read', () => {
    const readAhead = new ReadAhead();
    readAhead.beginPage(0);
    expect(ids(readAhead.add([third], 200, notClaimed))).toEqual(['m3']);
    expect(readAhead.ready).toBe(0);
  });

  test('are not added twice, nor while they are claimed', () => {
    const readAhead = readAheadOf(first);
    readAhead.restart();
    readAhead.beginPage(0);
    readAhead.add([first, due(4, null)], 200, (id) => id === 'm4');
    expect(ids(readAhead.take(9))).toEqual(['m1']);
  });

  test('are read from the start again after a restart during the reading of a page', () => {
    const readAhead = new ReadAhead();
    readAhead.beginPage(0);
    readAhead.restart();
    readAhead.add([first], 200, notClaimed);
    expect([readAhead.hasUnread, readAhead.pageEnd]).toEqual([true, undefined]);
    readAhead.beginPage(0);
    readAhead.add([first], 200, notClaimed);
    expect(readAhead.hasUnread).toBe(false);
  });

  test('are followed by deliveries that were added while a page was being read', () => {
    const readAhead = readAheadOf(first);
    readAhead.beginPage(0);
    readAhead.continue();
    readAhead.add([], 200, notClaimed);
    expect(readAhead.hasUnread).toBe(true);
    readAhead.beginPage(0);
    readAhead.add([], 200, notClaimed);
    expect(readAhead.hasUnread).toBe(false);
  });

  const unordered = (seq: number, dueAtMs: number) => ({ ...due(seq, null), dueAtMs });

  test('are followed by deliveries that were due before them, but committed later', () => {
    const readAhead = new ReadAhead();
    readAhead.beginPage(0);
    readAhead.add([unordered(1, 10_000)], 200, notClaimed);
    readAhead.continue();
    expect(readAhead.pageEnd).toEqual({ dueAtMs: 9700, seq: 0n });
    readAhead.beginPage(0);
    readAhead.add([unordered(2, 9_990), unordered(1, 10_000)], 200, notClaimed);
    expect([readAhead.hasUnread, ids(readAhead.take(9))]).toEqual([false, ['m1', 'm2']]);
  });

  test('are read to their end before those that committed late', () => {
    const readAhead = readAheadOf(unordered(1, 10_000), unordered(2, 10_100));
    for (let i = 0; i < 2; i += 1) readAhead.continue();
    expect(readAhead.pageEnd).toMatchObject({ dueAtMs: 10_100 });
    readAhead.beginPage(0);
    readAhead.add([unordered(3, 10_200)], 200, notClaimed);
    expect([readAhead.hasUnread, readAhead.pageEnd]).toEqual([true, { dueAtMs: 9900, seq: 0n }]);
    readAhead.beginPage(0);
    readAhead.add([unordered(2, 10_100), unordered(3, 10_200)], 200, notClaimed);
    expect(readAhead.hasUnread).toBe(false);
  });

  test('are read from the start when deliveries are added and nothing is left', () => {
    const readAhead = new ReadAhead();
    readAhead.beginPage(0);
    readAhead.add([first], 200, notClaimed);
    readAhead.take(1);
    readAhead.continue();
    expect([readAhead.hasUnread, readAhead.pageEnd]).toEqual([true, undefined]);
  });

  test('do not follow the last delivery of a released conversation while others are in flight', () => {
    const released = (seq: number, heldBy: number) => ({ ...due(seq, 'A', heldBy), released: true });
    const readAhead = readAheadOf(first, released(2, 1), released(3, 2));
    expect(ids(readAhead.take(9))).toEqual(['m1', 'm2', 'm3']);
    readAhead.beginPage(0);
    // The conversation is ordered again, because the endpoint had a success.
    expect(ids(readAhead.add([due(4, 'A', 3)], 200, notClaimed))).toEqual(['m4']);
    readAhead.resolve(released(3, 2), true);
    expect(ids(readAhead.take(9))).toEqual([]);
  });

  test('are read in larger pages while pages are used up quickly', () => {
    const readAhead = new ReadAhead();
    const sizes = [0, 100, 200, 300, 400, 5000].map((nowMs) => readAhead.beginPage(nowMs));
    expect(sizes).toEqual([200, 400, 800, 1600, 1600, 200]);
  });
});
