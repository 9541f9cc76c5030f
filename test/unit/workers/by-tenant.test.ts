import { expect, it } from 'vitest';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import { byTenant } from '../../../workers/sql/by-tenant.ts';

it('runs the statements of tenants in one order, whatever the order of the ids', async () => {
  const locked = (ids: readonly (readonly [string, string])[]) =>
    byTenant(
      {} as Queryable,
      ids.map(([tenantId, key]) => ({ tenantId, key })),
      async (tenantId, ofTenant) => ofTenant.map(({ key }) => `${tenantId}/${key}`),
    );
  // Sorted by key: with the tenants in the order of their first keys, these two would deadlock.
  expect(
    await locked([
      ['a', '1'],
      ['b', '2'],
    ]),
  ).toEqual(['a/1', 'b/2']);
  expect(
    await locked([
      ['b', '0'],
      ['a', '1'],
      ['b', '2'],
    ]),
  ).toEqual(['a/1', 'b/0', 'b/2']);
});
