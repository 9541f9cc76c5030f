import { inTransaction, type Pool } from './pool.ts';
import { createEndpoint, type NewEndpoint } from './webhook-create-endpoint.ts';

/**
 * Adds an endpoint, unless the tenant has `endpointsMax` endpoints or more, or the key that creates
 * it was revoked; returns the outcome. Concurrent calls for one tenant are serialized by its row,
 * so that together they stay within the limit, and so that a key that is being revoked with its
 * endpoints creates no other.
 */
export async function createEndpointUpTo(
  pool: Pool,
  endpointsMax: number,
  endpoint: NewEndpoint,
): Promise<'added' | 'endpoints-exhausted' | 'maker-revoked'> {
  return await inTransaction(pool, async (client) => {
    await client.query('select 1 from tenants where tenant_id = $1::text for no key update', [
      endpoint.tenantId,
    ]);
    const { rows } = await client.query<{ endpoints: number; maker_revoked: boolean }>(
      `select (select count(*)::integer
                 from webhook_endpoints
                where tenant_id = $1::text and state <> 'deleted') as endpoints,
              exists (select from api_keys
                       where tenant_id = $1::text and api_key_id = $2::text
                         and revoked_at is not null) as maker_revoked`,
      [endpoint.tenantId, endpoint.createdBy ?? null],
    );
    const { endpoints, maker_revoked: makerRevoked } = rows[0]!;
    if (makerRevoked) return 'maker-revoked';
    if (endpoints >= endpointsMax) return 'endpoints-exhausted';
    await createEndpoint(client, endpoint);
    return 'added';
  });
}
