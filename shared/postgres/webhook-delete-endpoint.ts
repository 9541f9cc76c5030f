import type { Queryable } from './pool.ts';

/**
 * Deletes an endpoint and erases its secret; returns whether it existed. The row stays, because
 * events for it may be being written. Dispatchers drop its waiting deliveries.
 */
export async function deleteEndpoint(
  db: Queryable,
  tenantId: string,
  endpointId: string,
  nowMs: number,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update webhook_endpoints
        set state = 'deleted', secret_key_id = null, secret_ciphertext = null, updated_at = $3
      where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted'`,
    [tenantId, endpointId, new Date(nowMs)],
  );
  return rowCount === 1;
}
