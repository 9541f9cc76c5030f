import { expect, test } from 'vitest';
import { ClaimLease, sendUntilMs } from '../../../workers/webhooks/claim-lease.ts';

test.each([
  ['as given while the database is fast', 20, 5000],
  ['four times as long as the last claim took', 2000, 8000],
  ['a minute at most', 25_000, 60_000],
])('a claim takes a lease %s', (_, tookMs, expected) => {
  const lease = new ClaimLease(5000);
  lease.note(tookMs);
  expect(lease.ms).toBe(expected);
});

test('a claim takes the given lease again after a fast one', () => {
  const lease = new ClaimLease(5000);
  lease.note(10_000);
  lease.note(10);
  expect(lease.ms).toBe(5000);
});

test('a delivery is sent within 60 % of its lease', () => {
  expect(sendUntilMs(1000, 5000)).toBe(4000);
});
