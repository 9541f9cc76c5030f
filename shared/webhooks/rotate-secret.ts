import type { Clock } from '../clock.ts';
import type { SecretRotation } from '../contracts/webhook-endpoints.ts';
import type { KeyRing } from '../keyring/keyring.ts';
import { webhookSecretAad } from '../keyring/webhook-secret-aad.ts';
import { rotateEndpointSecret, type SecretRotated } from '../postgres/change-webhook-endpoint.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { EndpointId } from '../postgres/webhook-endpoints.ts';
import { formatWebhookSecret, newWebhookSecret } from './secrets.ts';

export interface RotateSecretDeps {
  readonly pool: Queryable;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

/** Like {@link SecretRotated}, with the new secret (`whsec_…`), which its owner sees only once. */
export type RotatedSecret =
  | (Extract<SecretRotated, { ok: true }> & { readonly secret: string })
  | Extract<SecretRotated, { ok: false }>;

/** Gives an endpoint a new secret, or the given one: see {@link rotateEndpointSecret}. */
export async function rotateSecret(
  { pool, keyRing, clock }: RotateSecretDeps,
  id: EndpointId,
  { secret = newWebhookSecret(), overlapMs }: SecretRotation,
): Promise<RotatedSecret> {
  const encrypted = keyRing.encrypt(secret, webhookSecretAad(id.tenantId, id.endpointId));
  const rotated = await rotateEndpointSecret(pool, id, {
    secret: encrypted,
    overlapMs,
    nowMs: clock.nowMs(),
  });
  return rotated.ok ? { ...rotated, secret: formatWebhookSecret(secret) } : rotated;
}
