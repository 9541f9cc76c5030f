import type { Queryable } from './pool.ts';

/** An endpoint as its owner sees it; never with its secret. */
export interface Endpoint {
  readonly endpointId: string;
  readonly url: string;
  /** Null: all types. */
  readonly eventTypes: readonly string[] | null;
  readonly state: 'enabled' | 'disabled';
  /** Why it was disabled: `gone` (it answered 410) or `failing` (for five days); else null. */
  readonly disabledReason: string | null;
  readonly createdAtMs: number;
}

interface Row {
  readonly endpoint_id: string;
  readonly url: string;
  readonly event_types: string[] | null;
  readonly state: 'enabled' | 'disabled';
  readonly disabled_reason: string | null;
  readonly created_at: Date;
}

/** A tenant's endpoints, oldest first; with `endpointId` that one, if it is there. Deleted ones are not there. */
export async function findEndpoints(
  db: Queryable,
  tenantId: string,
  endpointId?: string,
): Promise<Endpoint[]> {
  const { rows } = await db.query<Row>(
    `select endpoint_id, url, event_types, state, disabled_reason, created_at
       from webhook_endpoints
      where tenant_id = $1 and ($2::text is null or endpoint_id = $2) and state <> 'deleted'
      order by created_at, endpoint_id`,
    [tenantId, endpointId ?? null],
  );
  return rows.map((row) => ({
    endpointId: row.endpoint_id,
    url: row.url,
    eventTypes: row.event_types,
    state: row.state,
    disabledReason: row.disabled_reason,
    createdAtMs: row.created_at.getTime(),
  }));
}
