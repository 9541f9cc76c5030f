import { describe, expect, it } from 'vitest';
import { TenantShares } from '../../shared/tenant-shares.ts';

describe('tenant shares', () => {
  it.each([true, false])(
    'let no tenant hold more than it leaves free (first takes all: %s)',
    (firstTakesAll) => {
      const shares = new TenantShares({ max: 100, firstTakesAll });
      expect(shares.take('a', 30)).toBe(true);
      expect(shares.take('a', 20)).toBe(true);
      expect(shares.take('a', 1)).toBe(false);
      expect(shares.take('b', 20)).toBe(true);
      expect(shares.take('b', 6)).toBe(false);
      expect(shares.take('b', 5)).toBe(true);
      shares.give('a', 50);
      expect(shares.take('b', 12)).toBe(true);
      expect(shares.take('b', 14)).toBe(false);
      expect(shares.held()).toBe(37);
    },
  );

  it('give a tenant that holds nothing all free bytes only with firstTakesAll', () => {
    const shares = new TenantShares({ max: 100, firstTakesAll: true });
    expect(shares.take('a', 101)).toBe(false);
    expect(shares.take('a', 90)).toBe(true);
    expect(shares.take('b', 11)).toBe(false);
    expect(shares.take('b', 10)).toBe(true);
    shares.give('a', 90);
    expect(shares.take('a', 90)).toBe(true);
    expect(new TenantShares({ max: 100 }).take('a', 51)).toBe(false);
  });
});
