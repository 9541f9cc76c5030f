import type { WebhookType } from '../../../shared/contracts/webhooks.ts';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';

export type EndpointState = 'enabled' | 'disabled' | 'deleted';

/** Recent successes and failures of an endpoint. Times in milliseconds since the epoch. */
export interface EndpointHealth {
  readonly state: EndpointState;
  readonly disabledReason: string | null;
  /** Failed attempts since the last success. */
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly lastFailureAtMs: number | null;
  readonly lastSuccessAtMs: number | null;
  /** Nothing is sent until then. */
  readonly pausedUntilMs: number | null;
}

export interface LockedEndpoint extends EndpointId {
  readonly url: string;
  /** Encrypted with the key ring; null once deleted. */
  readonly secret: { readonly keyId: string; readonly ciphertext: Buffer } | null;
  readonly health: EndpointHealth;
}

interface EndpointRow {
  readonly url: string;
  readonly state: EndpointState;
  readonly disabled_reason: string | null;
  readonly secret_key_id: string | null;
  readonly secret_ciphertext: Buffer | null;
  readonly failures: number;
  readonly failing_since: Date | null;
  readonly last_failure_at: Date | null;
  readonly last_success_at: Date | null;
  readonly paused_until: Date | null;
}

/**
 * Reads an endpoint and locks its row until the transaction ends. Resolves with undefined, without
 * waiting, where another transaction holds the lock or there is no row.
 */
export async function lockEndpoint(client: Queryable, id: EndpointId): Promise<LockedEndpoint | undefined> {
  const { rows } = await client.query<EndpointRow>(
    `select url, state, disabled_reason, secret_key_id, secret_ciphertext,
            failures, failing_since, last_failure_at, last_success_at, paused_until
       from webhook_endpoints
      where tenant_id = $1 and endpoint_id = $2
        for no key update skip locked`,
    [id.tenantId, id.endpointId],
  );
  const row = rows[0];
  if (!row) return undefined;
  return {
    tenantId: id.tenantId,
    endpointId: id.endpointId,
    url: row.url,
    secret:
      row.secret_key_id !== null && row.secret_ciphertext !== null
        ? { keyId: row.secret_key_id, ciphertext: row.secret_ciphertext }
        : null,
    health: {
      state: row.state,
      disabledReason: row.disabled_reason,
      failures: row.failures,
      failingSinceMs: row.failing_since?.getTime() ?? null,
      lastFailureAtMs: row.last_failure_at?.getTime() ?? null,
      lastSuccessAtMs: row.last_success_at?.getTime() ?? null,
      pausedUntilMs: row.paused_until?.getTime() ?? null,
    },
  };
}

/**
 * Whether the endpoint has a row. Deleted endpoints have one; a database restored to a time before
 * the creation has none.
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
  await client.query(
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

function toDate(timeMs: number | null): Date | null {
  return timeMs === null ? null : new Date(timeMs);
}

/**
 * Returns up to `limit` enabled endpoints of a tenant that subscribe to a type: healthy before
 * failing ones, then those that name the type before those that take all, then older ones first.
 */
export async function findSubscribers(
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
