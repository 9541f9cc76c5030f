import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';

export type EndpointState = 'enabled' | 'disabled' | 'deleted';

/** How an endpoint has been doing. Times in milliseconds since the epoch. */
export interface EndpointHealth {
  readonly state: EndpointState;
  readonly disabledReason: string | null;
  /** Failed attempts since the last success. */
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly lastFailureAtMs: number | null;
  readonly lastSuccessAtMs: number | null;
  /** It is left alone until then. */
  readonly pausedUntilMs: number | null;
}

export interface LockedEndpoint extends EndpointId {
  readonly url: string;
  /** Encrypted with the key ring; null once deleted. */
  readonly secret: { readonly keyId: string; readonly ciphertext: Buffer } | null;
  readonly health: EndpointHealth;
}

interface Row {
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

/** Reads an endpoint and locks it until the transaction ends; undefined at once where another dispatcher has it, or it is not there. */
export async function lockEndpoint(client: Queryable, id: EndpointId): Promise<LockedEndpoint | undefined> {
  const { rows } = await client.query<Row>(
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

/** Whether the endpoint has a row. Deleted ones have: only a database that was put back to before it was made has none. */
export async function hasEndpoint(client: Queryable, id: EndpointId): Promise<boolean> {
  const { rowCount } = await client.query(
    'select from webhook_endpoints where tenant_id = $1 and endpoint_id = $2',
    [id.tenantId, id.endpointId],
  );
  return rowCount === 1;
}
