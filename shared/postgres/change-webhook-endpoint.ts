import type { EndpointSettings } from '../contracts/webhook-endpoints.ts';
import { storedFilters } from '../contracts/webhook-filters.ts';
import type { Encrypted } from '../keyring/keyring.ts';
import type { Queryable } from './pool.ts';
import { epochMs, isoTime } from './times.ts';
import {
  CLAIMED_BEFORE_MS,
  type EncryptedHeaders,
  type Endpoint,
  type EndpointId,
  findEndpoints,
  PAUSED_MS,
} from './webhook-endpoints.ts';
import { notifyDispatchers } from './webhook-notifications.ts';

/**
 * Changes of an endpoint by its owner. They wait for the lock of the endpoint's row, which
 * dispatchers hold while they claim. So what is claimed afterwards is sent as changed, and what was
 * claimed before is sent within a second.
 */

/** What to change; omitted members stay as they are. */
export interface EndpointUpdate extends Partial<Omit<EndpointSettings, 'headers'>> {
  readonly headers?: EncryptedHeaders | null;
}

/**
 * Changes settings of an endpoint, and resolves with the endpoint; undefined if there is none. A new
 * URL is a new receiver: its failures and the pause that the earlier one asked for are forgotten.
 */
export async function updateEndpoint(
  db: Queryable,
  id: EndpointId,
  change: EndpointUpdate,
  nowMs: number,
): Promise<Endpoint | undefined> {
  const { url, headers, ratePerSecond } = change;
  const filters = change.eventTypes === undefined ? undefined : storedFilters(change.eventTypes);
  const isOtherUrl = 'url is distinct from $3 and $3::text is not null';
  // Times that were taken at a lower rate need not be waited for; others stay taken.
  const nextSendMs = ratePerSecond ? nowMs + CLAIMED_BEFORE_MS + 1000 / ratePerSecond : undefined;
  await db.query(
    `update webhook_endpoints
        set failures = case when ${isOtherUrl} then 0 else failures end,
            failing_since = case when ${isOtherUrl} then null else failing_since end,
            paused_until = case when ${isOtherUrl} and paused_until < $4 then null else paused_until end,
            url = coalesce($3, url),
            event_types = case when $5 then $6::text[] else event_types end,
            event_filters = case when $5 then $7::text[] else event_filters end,
            description = case when $8 then $9::text else description end,
            header_names = case when $10 then $11::text[] else header_names end,
            headers_key_id = case when $10 then $12::text else headers_key_id end,
            headers_ciphertext = case when $10 then $13::bytea else headers_ciphertext end,
            rate_per_second = case when $14 then $15::integer else rate_per_second end,
            next_send_at = case when next_send_at > $18 then $18 else next_send_at end,
            retry_schedule = coalesce($16, retry_schedule),
            updated_at = $17
      where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted'`,
    [
      id.tenantId,
      id.endpointId,
      url ?? null,
      new Date(PAUSED_MS),
      filters !== undefined,
      filters?.eventTypes ?? null,
      filters?.eventFilters ?? null,
      change.description !== undefined,
      change.description ?? null,
      headers !== undefined,
      headers?.names ?? null,
      headers?.keyId ?? null,
      headers?.ciphertext ?? null,
      ratePerSecond !== undefined,
      ratePerSecond ?? null,
      change.retrySchedule ?? null,
      new Date(nowMs),
      nextSendMs === undefined ? null : new Date(nextSendMs),
    ],
  );
  if (url !== undefined) await continueRecovery(db, id, nowMs);
  return await changed(db, id);
}

/**
 * Stops sending to an endpoint until it is resumed. Its deliveries wait. Resolves with the endpoint, which
 * is unchanged if it is disabled; undefined if there is none.
 */
export async function pauseEndpoint(
  db: Queryable,
  id: EndpointId,
  nowMs: number,
): Promise<Endpoint | undefined> {
  await db.query(
    `update webhook_endpoints set paused_until = $3, updated_at = $4
      where tenant_id = $1 and endpoint_id = $2 and state = 'enabled'`,
    [id.tenantId, id.endpointId, new Date(PAUSED_MS), new Date(nowMs)],
  );
  return await changed(db, id);
}

/**
 * Ends the pause of an endpoint, also one that the endpoint asked for. Resolves with the endpoint, which
 * is unchanged if it is disabled; undefined if there is none.
 */
export async function resumeEndpoint(
  db: Queryable,
  id: EndpointId,
  nowMs: number,
): Promise<Endpoint | undefined> {
  await db.query(
    `update webhook_endpoints set paused_until = null, resumed_at = $3, updated_at = $3
      where tenant_id = $1 and endpoint_id = $2 and state = 'enabled' and paused_until is not null`,
    [id.tenantId, id.endpointId, new Date(nowMs)],
  );
  await continueRecovery(db, id, nowMs);
  return await changed(db, id);
}

/**
 * Enables an endpoint that was disabled, whose failures are forgotten. A pause by its owner lasts.
 * Resolves with the endpoint; undefined if there is none.
 */
export async function enableEndpoint(
  db: Queryable,
  id: EndpointId,
  nowMs: number,
): Promise<Endpoint | undefined> {
  await db.query(
    `update webhook_endpoints
        set state = 'enabled', disabled_reason = null, failures = 0, failing_since = null,
            paused_until = case when paused_until < $3 then null else paused_until end, resumed_at = $4, updated_at = $4
      where tenant_id = $1 and endpoint_id = $2 and state = 'disabled'`,
    [id.tenantId, id.endpointId, new Date(PAUSED_MS), new Date(nowMs)],
  );
  await continueRecovery(db, id, nowMs);
  return await changed(db, id);
}

export type SecretRotated =
  | { readonly ok: true; readonly previousUntilMs: number | null }
  | { readonly ok: false; readonly why: 'unknown' }
  /** The secret before the last rotation signs until then. */
  | { readonly ok: false; readonly why: 'rotating'; readonly untilMs: number };

/**
 * Gives an endpoint another secret, encrypted with the key ring. The previous one signs too for
 * `overlapMs`; 0 ends all previous ones. Refuses an overlap while an earlier one lasts, because a
 * receiver may know only the secret that it would end.
 */
export async function rotateEndpointSecret(
  db: Queryable,
  id: EndpointId,
  rotation: { readonly secret: Encrypted; readonly overlapMs: number; readonly nowMs: number },
): Promise<SecretRotated> {
  const { secret, overlapMs, nowMs } = rotation;
  const untilMs = overlapMs === 0 ? null : nowMs + overlapMs;
  const { rowCount } = await db.query(
    `update webhook_endpoints
        set previous_secret_key_id = case when $3::timestamptz is not null then secret_key_id end,
            previous_secret_ciphertext = case when $3::timestamptz is not null then secret_ciphertext end,
            previous_secret_until = $3,
            secret_key_id = $4, secret_ciphertext = $5, updated_at = $6
      where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted'
        and ($3::timestamptz is null or previous_secret_until is null or previous_secret_until <= $6)`,
    [
      id.tenantId,
      id.endpointId,
      untilMs === null ? null : new Date(untilMs),
      secret.keyId,
      secret.ciphertext,
      new Date(nowMs),
    ],
  );
  if (rowCount === 1) return { ok: true, previousUntilMs: untilMs };
  const { rows } = await db.query<{ untilMs: number | null }>(
    `select ${epochMs('previous_secret_until')} as "untilMs"
       from webhook_endpoints
      where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted'`,
    [id.tenantId, id.endpointId],
  );
  const [found] = rows;
  return found
    ? { ok: false, why: 'rotating', untilMs: found.untilMs ?? nowMs }
    : { ok: false, why: 'unknown' };
}

/**
 * Makes the next step of the endpoint's recovery due, if there is one: the owner has changed what it may
 * have waited for.
 */
async function continueRecovery(
  db: Queryable,
  { tenantId, endpointId }: EndpointId,
  nowMs: number,
): Promise<void> {
  await db.query(
    `update webhook_recoveries set step_at = $3
      where tenant_id = $1 and endpoint_id = $2 and state = 'running' and step_at > $3`,
    [tenantId, endpointId, isoTime(nowMs)],
  );
}

/** Lets dispatchers use the change now, and resolves with the endpoint. */
async function changed(db: Queryable, id: EndpointId): Promise<Endpoint | undefined> {
  const [endpoint] = await findEndpoints(db, [id.tenantId], id.endpointId);
  if (endpoint) await notifyDispatchers(db, id);
  return endpoint;
}
