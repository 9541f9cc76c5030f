import type { Clock } from '../clock.ts';
import type { EndpointRequest, EndpointSettings } from '../contracts/webhook-endpoints.ts';
import { AppError } from '../errors.ts';
import type { IdGenerator } from '../ids.ts';
import type { KeyRing } from '../keyring/keyring.ts';
import { webhookSecretAad } from '../keyring/webhook-secret-aad.ts';
import type { Pool } from '../postgres/pool.ts';
import { createEndpointInLimit, type Endpoint, findEndpoints } from '../postgres/webhook-endpoints.ts';
import { encryptHeaders } from './endpoint-headers.ts';
import { formatWebhookSecret, newWebhookSecret } from './secrets.ts';

export interface CreateEndpointDeps {
  readonly pool: Pool;
  /** The key ring. Must be the same as that of the workers, which decrypt the secret to sign. */
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  /** Maximum number of endpoints of the tenant, including the new one. */
  readonly endpointsMax: number;
}

/** The endpoint to create. The caller has checked its URL. */
export interface EndpointToCreate
  extends Pick<EndpointSettings, 'url' | 'eventTypes'>,
    Partial<Omit<EndpointRequest, 'url' | 'eventTypes'>> {
  readonly tenantId: string;
  /** The API key that creates the endpoint. Default: none, for the command. */
  readonly createdBy?: string;
}

/** A new endpoint with its secret (`whsec_…`), which its owner sees only once. */
export interface CreatedEndpoint extends Endpoint {
  readonly secret: string;
}

/** Code of the AppError of a tenant that has the maximum number of endpoints. */
export const ENDPOINTS_EXHAUSTED = 'ENDPOINTS_EXHAUSTED';
/** Code of the AppError if the key that creates the endpoint was revoked meanwhile. */
export const CREATOR_REVOKED = 'CREATOR_REVOKED';

/**
 * Adds an endpoint with a new secret, or the given one, of which only the encrypted form is stored.
 * Throws AppError `ENDPOINTS_EXHAUSTED` if the tenant already has `endpointsMax` endpoints, and
 * `CREATOR_REVOKED` if the key that creates the endpoint was revoked.
 */
export async function createWebhookEndpoint(
  { pool, keyRing, clock, nextId, endpointsMax }: CreateEndpointDeps,
  { tenantId, createdBy, ...request }: EndpointToCreate,
): Promise<CreatedEndpoint> {
  const endpointId = nextId();
  const secret = request.secret ?? newWebhookSecret();
  const outcome = await createEndpointInLimit(pool, endpointsMax, {
    ...request,
    tenantId,
    endpointId,
    secret: keyRing.encrypt(secret, webhookSecretAad(tenantId, endpointId)),
    headers: encryptHeaders(keyRing, { tenantId, endpointId }, request.headers ?? null),
    createdAtMs: clock.nowMs(),
    createdBy: createdBy ?? null,
  });
  if (outcome === 'maker-revoked')
    throw new AppError(CREATOR_REVOKED, 'the key that creates the endpoint was revoked');
  if (outcome === 'endpoints-exhausted') {
    throw new AppError(
      ENDPOINTS_EXHAUSTED,
      `a tenant may have at most ${endpointsMax} webhook endpoints (SLUICE_WEBHOOK_ENDPOINTS_MAX): delete one first`,
    );
  }
  const [endpoint] = await findEndpoints(pool, [tenantId], endpointId);
  if (!endpoint) throw new Error(`the webhook endpoint ${endpointId} was just deleted`);
  return { ...endpoint, secret: formatWebhookSecret(secret) };
}
