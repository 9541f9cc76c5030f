import type { RetrySchedule } from '../contracts/webhook-endpoints.ts';
import { storedFilters } from '../contracts/webhook-filters.ts';
import type { Encrypted } from '../keyring/keyring.ts';
import { inTransaction, type Pool, type Queryable } from './pool.ts';
import { epochMs } from './times.ts';

export interface EndpointId {
  readonly tenantId: string;
  readonly endpointId: string;
}

/** Custom headers: their names, and a JSON object of them, encrypted with the key ring. */
export interface EncryptedHeaders extends Encrypted {
  readonly names: readonly string[];
}

export interface NewEndpoint extends EndpointId {
  readonly url: string;
  /** The filters by type; null: all types, including those of later releases. */
  readonly eventTypes: readonly string[] | null;
  /** The signing secret, encrypted with the key ring. */
  readonly secret: Encrypted;
  readonly createdAtMs: number;
  readonly description?: string | null;
  readonly headers?: EncryptedHeaders | null;
  /** Attempts per second. Default: no limit. */
  readonly ratePerSecond?: number | null;
  /** Default: standard. */
  readonly retrySchedule?: RetrySchedule;
  /** The API key that creates it. Default: none, for the command. */
  readonly createdBy?: string | null;
}

/** Adds an endpoint, which receives events from then on. */
export async function createEndpoint(db: Queryable, endpoint: NewEndpoint): Promise<void> {
  const { headers } = endpoint;
  const { eventTypes, eventFilters } = storedFilters(endpoint.eventTypes);
  await db.query(
    `insert into webhook_endpoints
       (tenant_id, endpoint_id, url, event_types, event_filters, state, secret_key_id, secret_ciphertext, created_at,
        updated_at, created_by, description, header_names, headers_key_id, headers_ciphertext, rate_per_second,
        retry_schedule)
     values ($1::text, $2::text, $3::text, $4::text[], $5::text[], 'enabled', $6::text, $7::bytea, $8::timestamptz,
             $8::timestamptz, $9::text, $10::text, $11::text[], $12::text, $13::bytea, $14::integer, $15::text)`,
    [
      endpoint.tenantId,
      endpoint.endpointId,
      endpoint.url,
      eventTypes,
      eventFilters,
      endpoint.secret.keyId,
      endpoint.secret.ciphertext,
      new Date(endpoint.createdAtMs),
      endpoint.createdBy ?? null,
      endpoint.description ?? null,
      headers?.names ?? null,
      headers?.keyId ?? null,
      headers?.ciphertext ?? null,
      endpoint.ratePerSecond ?? null,
      endpoint.retrySchedule ?? 'standard',
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
              exists (select 1 from api_keys
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

/**
 * The end of a pause by the owner, which lasts until the owner resumes. A time, because processes of
 * the previous release respect it too.
 */
export const PAUSED_MS = Date.UTC(9999, 0, 1);

/** Returns whether the owner has paused an endpoint, until the owner resumes it. */
export function isPausedByOwner({ pausedUntilMs }: Pick<Endpoint, 'pausedUntilMs'>): boolean {
  return pausedUntilMs !== null && pausedUntilMs >= PAUSED_MS;
}

/** Milliseconds before its time at which a delivery of an endpoint with a rate may be claimed. */
export const CLAIMED_BEFORE_MS = 500;

/** An endpoint, as shown to its owner, without its secret. */
export interface Endpoint extends EndpointId {
  readonly url: string;
  /** The filters by type; null: all types. */
  readonly eventTypes: readonly string[] | null;
  readonly description: string | null;
  /** The names of the custom headers; null: none. */
  readonly headerNames: readonly string[] | null;
  /** Attempts per second; null: no limit. */
  readonly ratePerSecond: number | null;
  readonly retrySchedule: RetrySchedule;
  /** Until when the secret before the last rotation signs too; null: it does not. */
  readonly previousSecretUntilMs: number | null;
  readonly state: 'enabled' | 'disabled';
  /**
   * The reason why the endpoint was disabled: `gone` (it answered 410), `failing` (for 5 days) or
   * `revoked` (its creator was revoked); else null.
   */
  readonly disabledReason: string | null;
  /** Failed attempts since the last success. */
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly lastFailureAtMs: number | null;
  readonly lastSuccessAtMs: number | null;
  /**
   * The end of the pause that the endpoint asked for, {@link PAUSED_MS} for a pause by its owner, or
   * null.
   */
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
    `select tenant_id as "tenantId", endpoint_id as "endpointId", url,
            coalesce(event_filters, event_types) as "eventTypes", description, header_names as "headerNames",
            rate_per_second as "ratePerSecond", retry_schedule as "retrySchedule",
            ${epochMs('previous_secret_until')} as "previousSecretUntilMs", state, disabled_reason as "disabledReason",
            failures, ${epochMs('failing_since')} as "failingSinceMs",
            ${epochMs('last_failure_at')} as "lastFailureAtMs", ${epochMs('last_success_at')} as "lastSuccessAtMs",
            ${epochMs('paused_until')} as "pausedUntilMs", ${epochMs('created_at')} as "createdAtMs",
            created_by as "createdBy"
       from webhook_endpoints
      where tenant_id = any($1::text[]) and ($2::text is null or endpoint_id = $2) and state <> 'deleted'
      order by created_at, endpoint_id`,
    [tenantIds, endpointId ?? null],
  );
  return rows;
}

/**
 * Deletes an endpoint and erases its secrets; returns whether the endpoint existed. The row is kept,
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
        set state = 'deleted', updated_at = $3, ${ERASED_SECRETS}
      where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted'`,
    [tenantId, endpointId, new Date(nowMs)],
  );
  return rowCount === 1;
}

/** Erases everything of an endpoint that the key ring encrypted, in an update. */
export const ERASED_SECRETS = `secret_key_id = null, secret_ciphertext = null, previous_secret_key_id = null,
  previous_secret_ciphertext = null, previous_secret_until = null, headers_key_id = null, headers_ciphertext = null`;
