import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { setTenantDisabled } from '../../cli/sql/tenants.ts';
import { createApiKey, revokeApiKey } from '../../shared/postgres/api-keys.ts';
import { createTenant } from '../../shared/postgres/tenants.ts';
import type { KeyName } from '../conformance/case.ts';
import { OPERATIONS } from '../conformance/operations/all.ts';
import { runOperation } from '../conformance/run.ts';
import { type KeyMaker, newRun, type Target } from '../conformance/target.ts';
import type { Product } from '../support/product.ts';

const KEYS: readonly KeyName[] = [
  'one-scope',
  'other-scope',
  'expired',
  'revoked',
  'disabled-tenant',
  'slow',
  'slow-too',
];

/**
 * Tests the whole interface with the conformance cases, on the embedded product and on separate
 * processes with Kafka.
 */
export function describeConformance(name: string, start: () => Promise<Product>): void {
  describe(`the interface on ${name}`, () => {
    let product: Product;
    let target: Target;

    beforeAll(async () => {
      product = await start();
      const { baseUrl, apiKeyId, apiKeySecret } = product;
      target = { baseUrl, key: { apiKeyId, apiKeySecret }, keys: keysInDatabase(product) };
    }, 90_000);

    afterAll(async () => {
      await product?.stop();
    });

    it.each(OPERATIONS)(
      '$name is answered as the interface document says',
      { timeout: 120_000 },
      async (operation) => {
        const report = await runOperation(operation, target);
        console.log(`${operation.name}: ${report.passed} of ${report.cases} cases`);
        expect(report.failed).toEqual([]);
        expect(report.passed).toBeGreaterThan(70);
        expect([...report.notRun.keys()]).toEqual([]);
      },
    );
  });
}

/** Returns a key maker that writes keys to the product's database. */
function keysInDatabase({ pool, tenantId }: Product): KeyMaker {
  const ids = newRun();
  return {
    names: KEYS,
    async make(name, scopes) {
      const apiKeyId = ids.id();
      const now = Date.now();
      const owner = name === 'disabled-tenant' ? ids.id() : tenantId;
      if (name === 'disabled-tenant') {
        await createTenant(pool, { tenantId: owner, name: owner, rate: 'none', createdAtMs: now });
        await setTenantDisabled(pool, owner, now);
      }
      const apiKeySecret = await createApiKey(pool, {
        apiKeyId,
        tenantId: owner,
        scopes,
        rate: name.startsWith('slow') ? 1 : undefined,
        createdAtMs: now,
      });
      if (name === 'revoked') await revokeApiKey(pool, apiKeyId, now);
      if (name === 'expired') {
        await pool.query('update api_keys set expires_at = now() where api_key_id = $1', [apiKeyId]);
      }
      return { apiKeyId, apiKeySecret };
    },
  };
}
