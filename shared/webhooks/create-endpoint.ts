import type { Clock } from '../clock.ts';
import type { WebhookType } from '../contracts/webhooks.ts';
import type { IdGenerator } from '../ids.ts';
import type { KeyRing } from '../keyring.ts';
import type { Queryable } from '../postgres/pool.ts';
import { createEndpoint } from '../postgres/webhook-create-endpoint.ts';
import { formatWebhookSecret, newWebhookSecret, webhookSecretAad } from './secrets.ts';

export interface CreateEndpointDeps {
  readonly db: Queryable;
  /** The ring of the workers, who must be able to sign. */
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
}

export interface EndpointToCreate {
  readonly tenantId: string;
  /** Whether it may be used is for the caller to check. */
  readonly url: string;
  /** Null: all types. */
  readonly eventTypes: readonly WebhookType[] | null;
}

/** A new endpoint as its owner is shown it, this once with its secret (`whsec_…`). */
export interface CreatedEndpoint {
  readonly endpointId: string;
  readonly url: string;
  readonly eventTypes: readonly WebhookType[] | null;
  readonly secret: string;
  readonly createdAt: string;
}

/** Adds an endpoint with a new secret, of which only the encrypted form is kept. */
export async function createWebhookEndpoint(
  { db, keyRing, clock, nextId }: CreateEndpointDeps,
  { tenantId, url, eventTypes }: EndpointToCreate,
): Promise<CreatedEndpoint> {
  const endpointId = nextId();
  const secret = newWebhookSecret();
  const encrypted = keyRing.encrypt(secret, webhookSecretAad(tenantId, endpointId));
  const createdAtMs = clock.nowMs();
  await createEndpoint(db, { tenantId, endpointId, url, eventTypes, secret: encrypted, createdAtMs });
  const createdAt = new Date(createdAtMs).toISOString();
  return { endpointId, url, eventTypes, secret: formatWebhookSecret(secret), createdAt };
}
