import { epochMs, toMs, toMsOrNull } from './epoch-ms.ts';
import type { Queryable } from './pool.ts';

/** An endpoint as its owner sees it; never with its secret. */
export interface Endpoint {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly url: string;
  /** Null: all types. */
  readonly eventTypes: readonly string[] | null;
  readonly state: 'enabled' | 'disabled';
  /**
   * Why it was disabled: `gone` (it answered 410), `failing` (for 5 days) or `revoked` (the key
   * that created it); else null.
   */
  readonly disabledReason: string | null;
  /** Failed attempts since the last success. */
  readonly failures: number;
  readonly lastFailureAtMs: number | null;
  readonly lastSuccessAtMs: number | null;
  /** The end of the pause that the endpoint asked for; null without one. */
  readonly pausedUntilMs: number | null;
  readonly createdAtMs: number;
  /** The API key that created it; null: the command did, or a release that did not store it. */
  readonly createdBy: string | null;
}

interface Row {
  readonly tenant_id: string;
  readonly endpoint_id: string;
  readonly url: string;
  readonly event_types: string[] | null;
  readonly state: 'enabled' | 'disabled';
  readonly disabled_reason: string | null;
  readonly failures: number;
  readonly last_failure_at_ms: bigint | null;
  readonly last_success_at_ms: bigint | null;
  readonly paused_until_ms: bigint | null;
  readonly created_at_ms: bigint;
  readonly created_by: string | null;
}

/**
 * Returns the tenants' endpoints, oldest first, without deleted ones; with `endpointId`, only that
 * one.
 */
export async function findEndpoints(
  db: Queryable,
  tenantIds: readonly string[],
  endpointId?: string,
): Promise<Endpoint[]> {
  const { rows } = await db.query<Row>(
    `select tenant_id, endpoint_id, url, event_types, state, disabled_reason, failures,
            ${epochMs('last_failure_at')} as last_failure_at_ms, ${epochMs('last_success_at')} as last_success_at_ms,
            ${epochMs('paused_until')} as paused_until_ms, ${epochMs('created_at')} as created_at_ms,
            created_by
       from webhook_endpoints
      where tenant_id = any($1::text[]) and ($2::text is null or endpoint_id = $2) and state <> 'deleted'
      order by created_at, endpoint_id`,
    [tenantIds, endpointId ?? null],
  );
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    endpointId: row.endpoint_id,
    url: row.url,
    eventTypes: row.event_types,
    state: row.state,
    disabledReason: row.disabled_reason,
    failures: row.failures,
    lastFailureAtMs: toMsOrNull(row.last_failure_at_ms),
    lastSuccessAtMs: toMsOrNull(row.last_success_at_ms),
    pausedUntilMs: toMsOrNull(row.paused_until_ms),
    createdAtMs: toMs(row.created_at_ms),
    createdBy: row.created_by,
  }));
}
