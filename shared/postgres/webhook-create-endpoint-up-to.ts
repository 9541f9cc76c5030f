import { inTransaction, type Pool } from './pool.ts';
import { createEndpoint, type NewEndpoint } from './webhook-create-endpoint.ts';

/**
 * As {@link createEndpoint}, unless the tenant has `endpointsMax` endpoints or more; resolves with whether it was added.
 * Concurrent calls for one tenant are serialized by its row, so that together they stay within the limit.
 */
export async function createEndpointUpTo(
  pool: Pool,
  endpointsMax: number,
  endpoint: NewEndpoint,
): Promise<boolean> {
  return await inTransaction(pool, async (client) => {
    await client.query('select 1 from tenants where tenant_id = $1::text for no key update', [
      endpoint.tenantId,
    ]);
    const { rows } = await client.query<{ endpoints: number }>(
      `select count(*)::integer as endpoints
         from webhook_endpoints
        where tenant_id = $1::text and state <> 'deleted'`,
      [endpoint.tenantId],
    );
    if (rows[0]!.endpoints >= endpointsMax) return false;
    await createEndpoint(client, endpoint);
    return true;
  });
}
