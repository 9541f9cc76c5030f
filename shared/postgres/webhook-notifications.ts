import type { Queryable } from './pool.ts';
import type { EndpointId } from './webhook-endpoints.ts';

/**
 * Channel that notifies dispatchers of deliveries that may be due. The payload names their
 * endpoints, see {@link endpointsOfPayload}.
 */
export const DELIVERIES_CHANNEL = 'sluice_deliveries';

/** Maximum characters of a notification's payload. Postgres permits almost 8000 bytes. */
const PAYLOAD_MAX = 2000;

/** Returns the payload of a notification; empty if there are too many endpoints to name them. */
export function payloadOf(endpoints: readonly EndpointId[] | undefined): string {
  if (endpoints === undefined) return '';
  const payload = JSON.stringify(endpoints.map(({ tenantId, endpointId }) => [tenantId, endpointId]));
  return payload.length > PAYLOAD_MAX ? '' : payload;
}

/**
 * Returns the endpoints that a notification names; undefined if it names none. Processes of the
 * previous release send an empty payload, and every session of the database may send any text.
 */
export function endpointsOfPayload(payload: string | undefined): EndpointId[] | undefined {
  try {
    const pairs = JSON.parse(payload ?? '') as readonly (readonly [string, string])[];
    return pairs.map(([tenantId, endpointId]) => ({ tenantId, endpointId }));
  } catch {
    return undefined;
  }
}

/** Lets dispatchers look at an endpoint at the commit, instead of at their next poll. */
export async function notifyDispatchers(db: Queryable, endpoint: EndpointId): Promise<void> {
  await db.query('select pg_notify($1, $2)', [DELIVERIES_CHANNEL, payloadOf([endpoint])]);
}
