import { inTransaction, type Pool, type Queryable } from './pool.ts';
import { epochMs } from './times.ts';

export interface EndpointId {
  readonly tenantId: string;
  readonly endpointId: string;
}

export interface NewEndpoint extends EndpointId {
  readonly url: string;
  /** The subscribed types; null: all types, including those of later releases. */
  readonly eventTypes: readonly string[] | null;
  /** The signing secret, encrypted with the key ring. */
  readonly secret: { readonly keyId: string; readonly ciphertext: Buffer };
  readonly createdAtMs: number;
  /** The API key that creates it. Default: none, for the command. */
  readonly createdBy?: string | null;
}

/** Adds an endpoint, which receives events from then on. */
export async function createEndpoint(db: Queryable, endpoint: NewEndpoint): Promise<void> {
  await db.query(
    `insert into webhook_endpoints
       (tenant_id, endpoint_id, url, event_types, state, secret_key_id, secret_ciphertext, created_at, updated_at,
        created_by)
     values ($1::text, $2::text, $3::text, $4::text[], 'enabled', $5::text, $6::bytea, $7::timestamptz, $7::timestamptz,
             $8::text)`,
    [
      endpoint.tenantId,
      endpoint.endpointId,
      endpoint.url,
      endpoint.eventTypes,
      endpoint.secret.keyId,
      endpoint.secret.ciphertext,
      new Date(endpoint.createdAtMs),
      endpoint.createdBy ?? null,
    ],
  );
}

/**
 * Adds an endpoint, unless the tenant has reached `endpointsMax` endpoints or the creating key was
 * revoked. Returns the outcome. The lock of the tenant's row serializes concurrent calls, so that
 * together they stay within the limit. Revocations take the same lock, so that a key that is being
 * revoked creates no endpoint.
 */
export async function createEndpointInLimit(
  pool: Pool,
  endpointsMax: number,
  endpoint: NewEndpoint,
): Promise<'added' | 'endpoints-exhausted' | 'maker-revoked'> {
  return await inTransaction(pool, async (client) => {
    await client.query('select 1 from tenants where tenant_id = $1::text for no key update', [
      endpoint.tenantId,
    ]);
    const { rows } = await client.query<{ endpoints: number; makerRevoked: boolean }>(
      `select (select count(*)::integer
                 from webhook_endpoints
                where tenant_id = $1::text and state <> 'deleted') as endpoints,
              exists (select from api_keys
                       where tenant_id = $1::text and api_key_id = $2::text
                         and revoked_at is not null) as "makerRevoked"`,
      [endpoint.tenantId, endpoint.createdBy ?? null],
    );
    const { endpoints, makerRevoked } = rows[0]!;
    if (makerRevoked) return 'maker-revoked';
    if (endpoints >= endpointsMax) return 'endpoints-exhausted';
    await createEndpoint(client, endpoint);
    return 'added';
  });
}

/** An endpoint, as shown to its owner, without its secret. */
export interface Endpoint extends EndpointId {
  readonly url: string;
  /** The subscribed types; null: all types. */
  readonly eventTypes: readonly string[] | null;
  readonly state: 'enabled' | 'disabled';
  /**
   * The reason why the endpoint was disabled: `gone` (it answered 410), `failing` (for 5 days) or
   * `revoked` (its creator was revoked); else null.
   */
  readonly disabledReason: string | null;
  /** Failed attempts since the last success. */
  readonly failures: number;
  readonly lastFailureAtMs: number | null;
  readonly lastSuccessAtMs: number | null;
  /** The end of the pause that the endpoint asked for; null without one. */
  readonly pausedUntilMs: number | null;
  readonly createdAtMs: number;
  /**
   * The API key that created the endpoint; null: created by the command, or by a release that did
   * not store it.
   */
  readonly createdBy: string | null;
}

/**
 * Returns the endpoints of the tenants, oldest first, without deleted ones; with `endpointId`, only
 * that endpoint.
 */
export async function findEndpoints(
  db: Queryable,
  tenantIds: readonly string[],
  endpointId?: string,
): Promise<Endpoint[]> {
  const { rows } = await db.query<Endpoint>(
    `select tenant_id as "tenantId", endpoint_id as "endpointId", url, event_types as "eventTypes", state,
            disabled_reason as "disabledReason", failures, ${epochMs('last_failure_at')} as "lastFailureAtMs",
            ${epochMs('last_success_at')} as "lastSuccessAtMs", ${epochMs('paused_until')} as "pausedUntilMs",
            ${epochMs('created_at')} as "createdAtMs", created_by as "createdBy"
       from webhook_endpoints
      where tenant_id = any($1::text[]) and ($2::text is null or endpoint_id = $2) and state <> 'deleted'
      order by created_at, endpoint_id`,
    [tenantIds, endpointId ?? null],
  );
  return rows;
}

/**
 * Deletes an endpoint and erases its secret; returns whether the endpoint existed. The row is kept,
 * because concurrent transactions may be writing events for the endpoint. Dispatchers drop its
 * waiting deliveries.
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
