import { sha256Of } from '../../../shared/api-key-secrets.ts';
import type { Clock } from '../../../shared/clock.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail } from '../../../shared/http/failures.ts';
import { API_SECRET_HEADER } from '../../../shared/http/headers.ts';
import type { KeyRing } from '../../../shared/keyring/keyring.ts';
import { PORTAL_SCOPE } from '../../tokens/portal-access.ts';
import { writePortalToken } from '../../tokens/portal-token.ts';

export interface CreateTokenDeps {
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

/** How long a token is valid, unless its API key or the secret of the key ends earlier. */
const TOKEN_MS = 3_600_000;

/**
 * Handles `POST /admin/v1/tokens`: creates a portal token of the caller's tenant. Nothing is stored:
 * the token holds what it states.
 */
export function createTokenOperation({ keyRing, clock }: CreateTokenDeps) {
  return (c: HttpContext): Response => {
    if (hasBody(c)) return fail(c, '400-01', [HAS_BODY]);
    const { tenantId, apiKeyId, expiresAtMs: keyUntilMs, previousSecret } = c.var.apiKey;
    const secretUntilMs = c.var.secretIsPrevious ? previousSecret?.validUntilMs : undefined;
    const untilMs = [clock.nowMs() + TOKEN_MS, keyUntilMs, secretUntilMs];
    const expiresAtMs = Math.min(...untilMs.filter((ms) => ms !== undefined));
    const token = writePortalToken(keyRing, {
      tenantId,
      apiKeyId,
      secretSha256: sha256Of(c.req.header(API_SECRET_HEADER)!),
      scopes: [PORTAL_SCOPE],
      expiresAtMs,
    });
    return answerJson(c, { token, expiresAt: new Date(expiresAtMs).toISOString() }, 201);
  };
}

/** The detail of a 400-01 for a request with a body, which might ask for another time. */
export const HAS_BODY = { path: 'body', message: 'must be empty: every token is valid for 1 hour' };

function hasBody(c: HttpContext): boolean {
  const length = c.req.header('content-length') ?? '0';
  return length !== '0' || c.req.header('transfer-encoding') !== undefined;
}
