import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';
import type { EndpointHealth } from './lock-endpoint.ts';

/** Stores how an endpoint is doing. Runs under the endpoint's lock. */
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
      date(health.failingSinceMs),
      date(health.lastFailureAtMs),
      date(health.lastSuccessAtMs),
      date(health.pausedUntilMs),
      new Date(nowMs),
    ],
  );
}

function date(timeMs: number | null): Date | null {
  return timeMs === null ? null : new Date(timeMs);
}
