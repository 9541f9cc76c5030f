import type { Queryable } from '../../shared/postgres/pool.ts';
import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';

/**
 * Erases secrets that were rotated and have expired, and what a process of the previous release left
 * when it deleted an endpoint. Resolves with the number of endpoints, at most `rowsMax`.
 */
export async function eraseEndpointSecrets(db: Queryable, nowMs: number, rowsMax: number): Promise<number> {
  const { rows } = await db.query<EndpointId>(
    `select tenant_id as "tenantId", endpoint_id as "endpointId"
       from webhook_endpoints
      where (previous_secret_until is not null or (state = 'deleted' and headers_ciphertext is not null))
        and (state = 'deleted' or previous_secret_until <= $1)
      order by tenant_id, endpoint_id
      limit $2`,
    [new Date(nowMs), rowsMax],
  );
  if (rows.length === 0) return 0;
  // Another rotation may have begun since.
  await db.query(
    `update webhook_endpoints e
        set previous_secret_key_id = null, previous_secret_ciphertext = null, previous_secret_until = null,
            headers_key_id = case when e.state = 'deleted' then null else e.headers_key_id end,
            headers_ciphertext = case when e.state = 'deleted' then null else e.headers_ciphertext end
       from unnest($2::text[], $3::text[]) as given (tenant_id, endpoint_id)
      where e.tenant_id = given.tenant_id and e.endpoint_id = given.endpoint_id
        and (e.state = 'deleted' or e.previous_secret_until <= $1)`,
    [new Date(nowMs), rows.map(({ tenantId }) => tenantId), rows.map(({ endpointId }) => endpointId)],
  );
  return rows.length;
}
