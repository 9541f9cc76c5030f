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

  test('are followed by deliveries that were added meanwhile', () => {
    const readAhead = readAheadOf(first);
    readAhead.beginPage(0);
    readAhead.continue();
    readAhead.add([], 200, notClaimed);
    expect([readAhead.hasUnread, readAhead.pageEnd]).toEqual([true, first]);
    readAhead.beginPage(0);
    readAhead.add([], 200, notClaimed);
    expect(readAhead.hasUnread).toBe(false);
    readAhead.take(1);
    readAhead.continue();
    expect([readAhead.hasUnread, readAhead.pageEnd]).toEqual([true, undefined]);
  });

  test('are read in larger pages while pages are used up quickly', () => {
    const readAhead = new ReadAhead();
    const sizes = [0, 100, 200, 300, 400, 5000].map((nowMs) => readAhead.beginPage(nowMs));
    expect(sizes).toEqual([200, 400, 800, 1600, 1600, 200]);
  });
});
