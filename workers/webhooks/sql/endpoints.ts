import type { RetrySchedule } from '../../../shared/contracts/webhook-endpoints.ts';
import type { WebhookType } from '../../../shared/contracts/webhooks.ts';
import {
  ENCRYPTED_COLUMNS,
  type EncryptedEndpoint,
  type EncryptedRow,
  encryptedEndpoint,
} from '../../../shared/postgres/encrypted-endpoint.ts';
import { withoutAnswer } from '../../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import { epochMs, toDate } from '../../../shared/postgres/times.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';
import { onShards } from '../../sql/by-tenant.ts';
import type { EndpointRate } from '../rate.ts';

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

export interface LockedEndpoint extends EncryptedEndpoint {
  readonly url: string;
  readonly health: EndpointHealth;
  readonly retrySchedule: RetrySchedule;
  /** Null: no limit. */
  readonly rate: EndpointRate | null;
  /** When its owner last resumed or enabled it; null: never. */
  readonly resumedAtMs: number | null;
}

interface EndpointRow extends EndpointHealth, EncryptedRow {
  readonly url: string;
  readonly retrySchedule: RetrySchedule;
  readonly ratePerSecond: number | null;
  readonly nextSendAtMs: number | null;
  readonly resumedAtMs: number | null;
}

const LOCKED = `"tenantId", "endpointId", url, "keyId", ciphertext, "previousKeyId", "previousCiphertext",
  "previousUntilMs", "headersKeyId", "headersCiphertext", state, "disabledReason", failures, "failingSinceMs",
  "lastFailureAtMs", "lastSuccessAtMs", "pausedUntilMs", "retrySchedule", "ratePerSecond", "nextSendAtMs",
  "resumedAtMs"`;

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
       select ${ENCRYPTED_COLUMNS}, url, state, disabled_reason as "disabledReason", failures,
              ${epochMs('failing_since')} as "failingSinceMs", ${epochMs('last_failure_at')} as "lastFailureAtMs",
              ${epochMs('last_success_at')} as "lastSuccessAtMs", ${epochMs('paused_until')} as "pausedUntilMs",
              retry_schedule as "retrySchedule", rate_per_second as "ratePerSecond",
              ${epochMs('next_send_at')} as "nextSendAtMs", ${epochMs('resumed_at')} as "resumedAtMs"
         from webhook_endpoints
        where tenant_id = $${2 * i + 1} and endpoint_id = any($${2 * i + 2}::text[])
          for no key update skip locked
     )`,
  );
  const { rows } = await client.query<EndpointRow>(
    `with ${tenants.join(', ')} ${tenants.map((_, i) => `select ${LOCKED} from tenant${i}`).join(' union all ')}`,
    [...byTenant].flat(),
  );
  return rows.map(lockedOf);
}

function lockedOf(row: EndpointRow): LockedEndpoint {
  const { url, retrySchedule, resumedAtMs, ratePerSecond, nextSendAtMs } = row;
  return {
    ...encryptedEndpoint(row),
    url,
    health: {
      state: row.state,
      disabledReason: row.disabledReason,
      failures: row.failures,
      failingSinceMs: row.failingSinceMs,
      lastFailureAtMs: row.lastFailureAtMs,
      lastSuccessAtMs: row.lastSuccessAtMs,
      pausedUntilMs: row.pausedUntilMs,
    },
    retrySchedule,
    rate: ratePerSecond === null ? null : { perSecond: ratePerSecond, nextSendAtMs },
    resumedAtMs,
  };
}

/**
 * Returns whether the endpoint has a row. Deleted endpoints keep their row. The row is missing in a
 * database restored to a time before the endpoint's creation.
 */
export async function hasEndpoint(client: Queryable, id: EndpointId): Promise<boolean> {
  const { rowCount } = await client.query(
    'select 1 from webhook_endpoints where tenant_id = $1 and endpoint_id = $2',
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

/** When the next attempt at an endpoint may begin at its rate. */
export interface NextSend extends EndpointId {
  readonly nextSendAtMs: number;
}

/** Stores when the next attempts may begin. Runs under the endpoints' locks. */
export async function updateNextSends(client: Queryable, next: readonly NextSend[]): Promise<void> {
  if (next.length === 0) return;
  await onShards(client, next, async (part, tenantOf) => {
    const values: unknown[] = [
      part.map(({ tenantId }) => tenantId),
      part.map(({ endpointId }) => endpointId),
      part.map(({ nextSendAtMs }) => new Date(nextSendAtMs)),
    ];
    return await withoutAnswer(client).query(
      `update webhook_endpoints e
          set next_send_at = given.next_send_at
         from unnest($1::text[], $2::text[], $3::timestamptz[]) as given (tenant_id, endpoint_id, next_send_at)
        where e.tenant_id = ${tenantOf('given', values)} and e.endpoint_id = given.endpoint_id`,
      values,
    );
  });
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
        and (event_types is null or $2::text = any(event_types)
             or split_part($2::text, '.', 1) || '.*' = any(event_filters))
      order by failures > 0, event_types is null, created_at, endpoint_id
      limit $3`,
    [tenantId, type, limit],
  );
  return rows.map(({ endpointId }) => endpointId);
}
