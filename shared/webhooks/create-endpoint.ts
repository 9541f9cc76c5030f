import type { Clock } from '../clock.ts';
import type { WebhookType } from '../contracts/webhooks.ts';
import { AppError } from '../errors.ts';
import type { IdGenerator } from '../ids.ts';
import type { KeyRing } from '../keyring/keyring.ts';
import { webhookSecretAad } from '../keyring/webhook-secret-aad.ts';
import type { Pool } from '../postgres/pool.ts';
import { createEndpointInLimit } from '../postgres/webhook-endpoints.ts';
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

export interface EndpointToCreate {
  readonly tenantId: string;
  /** The URL, which the caller has checked. */
  readonly url: string;
  /** The subscribed types; null: all types. */
  readonly eventTypes: readonly WebhookType[] | null;
  /** The API key that creates the endpoint. Default: none, for the command. */
  readonly createdBy?: string;
}

/** A new endpoint with its secret (`whsec_…`), which its owner sees only once. */
export interface CreatedEndpoint {
  readonly endpointId: string;
  readonly url: string;
  readonly eventTypes: readonly WebhookType[] | null;
  readonly secret: string;
  readonly createdAt: string;
}

/** Code of the AppError of a tenant that has the maximum number of endpoints. */
export const ENDPOINTS_EXHAUSTED = 'ENDPOINTS_EXHAUSTED';
/** Code of the AppError if the key that creates the endpoint was revoked meanwhile. */
export const CREATOR_REVOKED = 'CREATOR_REVOKED';

/**
 * Adds an endpoint with a new secret, of which only the encrypted form is stored. Throws AppError
 * `ENDPOINTS_EXHAUSTED` if the tenant already has `endpointsMax` endpoints, and `CREATOR_REVOKED` if
 * the key that creates the endpoint was revoked.
 */
export async function createWebhookEndpoint(
  { pool, keyRing, clock, nextId, endpointsMax }: CreateEndpointDeps,
  { tenantId, url, eventTypes, createdBy }: EndpointToCreate,
): Promise<CreatedEndpoint> {
  const endpointId = nextId();
  const secret = newWebhookSecret();
  const encrypted = keyRing.encrypt(secret, webhookSecretAad(tenantId, endpointId));
  const createdAtMs = clock.nowMs();
  const endpoint = {
    tenantId,
    endpointId,
    url,
    eventTypes,
    secret: encrypted,
    createdAtMs,
    createdBy: createdBy ?? null,
  };
  const outcome = await createEndpointInLimit(pool, endpointsMax, endpoint);
  if (outcome === 'maker-revoked')
    throw new AppError(CREATOR_REVOKED, 'the key that creates the endpoint was revoked');
  if (outcome === 'endpoints-exhausted') {
    throw new AppError(
      ENDPOINTS_EXHAUSTED,
      `a tenant may have at most ${endpointsMax} webhook endpoints (SLUICE_WEBHOOK_ENDPOINTS_MAX): delete one first`,
    );
  }
  const createdAt = new Date(createdAtMs).toISOString();
  return { endpointId, url, eventTypes, secret: formatWebhookSecret(secret), createdAt };
}
