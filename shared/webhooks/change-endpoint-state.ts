import { enableEndpoint, pauseEndpoint, resumeEndpoint } from '../postgres/change-webhook-endpoint.ts';
import { makeRetriesDue } from '../postgres/deliveries/make-retries-due.ts';
import type { Pool } from '../postgres/pool.ts';
import { type Endpoint, type EndpointId, isPausedByOwner } from '../postgres/webhook-endpoints.ts';

const CHANGES = { pause: pauseEndpoint, resume: resumeEndpoint, enable: enableEndpoint };

export type StateChange = keyof typeof CHANGES;
export const ENDPOINT_STATE_CHANGES = Object.keys(CHANGES) as StateChange[];

export type StateChanged =
  | {
      readonly kind: 'changed';
      readonly endpoint: Endpoint;
      /** Deliveries that waited for a retry and are due now; undefined: the change makes none due. */
      readonly retriesDue: number | undefined;
    }
  /** A disabled endpoint can only be enabled. */
  | { readonly kind: 'disabled'; readonly endpoint: Endpoint }
  | { readonly kind: 'unknown' };

/**
 * Pauses, resumes or enables an endpoint. Each may be repeated. To resume or enable says that the receiver
 * works again, so that deliveries which wait for a retry are due now.
 */
export async function changeEndpointState(
  pool: Pool,
  id: EndpointId,
  change: StateChange,
  nowMs: number,
): Promise<StateChanged> {
  const endpoint = await CHANGES[change](pool, id, nowMs);
  if (!endpoint) return { kind: 'unknown' };
  if (endpoint.state === 'disabled') return { kind: 'disabled', endpoint };
  const isSending = change !== 'pause' && !isPausedByOwner(endpoint);
  return {
    kind: 'changed',
    endpoint,
    retriesDue: change === 'pause' ? undefined : isSending ? await makeRetriesDue(pool, id, nowMs) : 0,
  };
}
