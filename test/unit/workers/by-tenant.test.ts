import { expect, it } from 'vitest';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import { byTenant, onShards } from '../../../workers/sql/by-tenant.ts';

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

it('changes rows of all tenants in one statement, on Citus in one per tenant that names it', async () => {
  const rows = ['b', 'a', 'b'].map((tenantId, n) => ({ tenantId, n }));
  const changed = async (isCitus: boolean) => {
    const statements: unknown[] = [];
    const returned = await onShards({ isCitus } as Queryable, rows, async (part, tenantOf) => {
      const values: unknown[] = [part.map(({ n }) => n)];
      statements.push([tenantOf('sent', values), values]);
      return { rows: [...part] };
    });
    expect(new Set(returned)).toEqual(new Set(rows));
    return statements;
  };
  expect(await changed(false)).toEqual([['sent.tenant_id', [[0, 1, 2]]]]);
  expect(await changed(true)).toEqual([
    ['$2::text', [[1], 'a']],
    ['$2::text', [[0, 2], 'b']],
  ]);
});
