import type { WebhookType } from '../../../shared/contracts/webhooks.ts';
import type { Queryable } from '../../../shared/postgres/pool.ts';

/**
 * Up to `limit` enabled endpoints of a tenant that want a type: those that work before those that fail, those that name the
 * type before those that take all, older ones first.
 */
export async function findSomeListeners(
  db: Queryable,
  tenantId: string,
  type: WebhookType,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ endpoint_id: string }>(
    `select endpoint_id
       from webhook_endpoints
      where tenant_id = $1 and state = 'enabled' and state <> 'deleted'
        and (event_types is null or $2::text = any(event_types))
      order by failures > 0, event_types is null, created_at, endpoint_id
      limit $3`,
    [tenantId, type, limit],
  );
  return rows.map((row) => row.endpoint_id);
}
