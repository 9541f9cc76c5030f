import type { WebhookType } from '../../../shared/contracts/webhooks.ts';
import { withoutAnswer } from '../../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import { epochMs, toDate } from '../../../shared/postgres/times.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';

export type EndpointState = 'enabled' | 'disabled' | 'deleted';

/** Recent successes and failures of an endpoint. Times are in milliseconds since the Unix epoch. */
export interface EndpointHealth {
  readonly state: EndpointState;
  readonly disabledReason: string | null;
  /** Failed attempts since the last success. */
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly lastFailureAtMs: number | null;
  readonly lastSuccessAtMs: number | null;
  /** The end of the pause of the endpoint; null without one. */
  readonly pausedUntilMs: number | null;
}

export interface LockedEndpoint extends EndpointId {
  readonly url: string;
  /** The signing secret, encrypted with the key ring; null for a deleted endpoint. */
  readonly secret: { readonly keyId: string; readonly ciphertext: Buffer } | null;
  readonly health: EndpointHealth;
}

interface EndpointRow extends EndpointHealth, EndpointId {
  readonly url: string;
  readonly keyId: string | null;
  readonly ciphertext: Buffer | null;
}

const LOCKED = `"tenantId", "endpointId", url, "keyId", ciphertext, state, "disabledReason", failures, "failingSinceMs",
  "lastFailureAtMs", "lastSuccessAtMs", "pausedUntilMs"`;

/**
 * Reads endpoints and locks their rows until the transaction ends. Leaves out, without waiting,
 * endpoints that another transaction has locked or that have no row. Locks tenant by tenant, in one
 * statement.
 */
export async function lockEndpoints(
  client: Queryable,
  byTenant: ReadonlyMap<string, readonly string[]>,
): Promise<LockedEndpoint[]> {
  if (byTenant.size === 0) return [];
  const tenants = [...byTenant.keys()].map(
    (_, i) => `tenant${i} as (
       select tenant_id as "tenantId", endpoint_id as "endpointId", url, secret_key_id as "keyId",
              secret_ciphertext as ciphertext, state, disabled_reason as "disabledReason", failures,
              ${epochMs('failing_since')} as "failingSinceMs", ${epochMs('last_failure_at')} as "lastFailureAtMs",
              ${epochMs('last_success_at')} as "lastSuccessAtMs", ${epochMs('paused_until')} as "pausedUntilMs"
         from webhook_endpoints
        where tenant_id = $${2 * i + 1} and endpoint_id = any($${2 * i + 2}::text[])
          for no key update skip locked
     )`,
  );
  const { rows } = await client.query<EndpointRow>(
    `with ${tenants.join(', ')} ${tenants.map((_, i) => `select ${LOCKED} from tenant${i}`).join(' union all ')}`,
    [...byTenant].flat(),
  );
  return rows.map(({ tenantId, endpointId, url, keyId, ciphertext, ...health }) => {
    const secret = keyId !== null && ciphertext !== null ? { keyId, ciphertext } : null;
    return { tenantId, endpointId, url, secret, health };
  });
}

/**
 * Returns whether the endpoint has a row. Deleted endpoints keep their row. The row is missing in a
 * database restored to a time before the endpoint's creation.
 */
export async function hasEndpoint(client: Queryable, id: EndpointId): Promise<boolean> {
  const { rowCount } = await client.query(
    'select from webhook_endpoints where tenant_id = $1 and endpoint_id = $2',
    [id.tenantId, id.endpointId],
  );
  return rowCount === 1;
}

/** Stores an endpoint's health. Runs under the endpoint's lock. */
export async function updateEndpointHealth(
  client: Queryable,
  id: EndpointId,
  health: EndpointHealth,
  nowMs: number,
): Promise<void> {
  await withoutAnswer(client).query(
    `update webhook_endpoints
        set state = $3, disabled_reason = $4, failures = $5, failing_since = $6, last_failure_at = $7,
            last_success_at = $8, paused_until = $9, updated_at = $10
      where tenant_id = $1 and endpoint_id = $2`,
    [
      id.tenantId,
      id.endpointId,
      health.state,
      health.disabledReason,
      health.failures,
      toDate(health.failingSinceMs),
      toDate(health.lastFailureAtMs),
      toDate(health.lastSuccessAtMs),
      toDate(health.pausedUntilMs),
      new Date(nowMs),
    ],
  );
}

/**
 * Returns up to `limit` enabled endpoints of a tenant that subscribe to a type. Healthy endpoints
 * come before failing ones, then endpoints that name the type before those with all types, then
 * older before newer ones.
 */
export async function findSubscribers(
  db: Queryable,
  tenantId: string,
  type: WebhookType,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ endpointId: string }>(
    `select endpoint_id as "endpointId"
       from webhook_endpoints
      where tenant_id = $1 and state = 'enabled' and state <> 'deleted'
        and (event_types is null or $2::text = any(event_types))
      order by failures > 0, event_types is null, created_at, endpoint_id
      limit $3`,
    [tenantId, type, limit],
  );
  return rows.map(({ endpointId }) => endpointId);
}
