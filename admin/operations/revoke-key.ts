import type { HttpContext } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';
import { revokeApiKey } from '../../shared/postgres/revoke-api-key.ts';
import { withDatabase } from '../database.ts';
import { keyIdOf } from '../key-id.ts';
import type { KeysDeps } from './create-key.ts';

/** `DELETE /admin/v1/keys/{apiKeyId}`: refused from now on, for ever; one that is revoked stays so. */
export function revokeKeyOperation({ pool, clock }: Pick<KeysDeps, 'pool' | 'clock'>) {
  return async (c: HttpContext): Promise<Response> => {
    const id = keyIdOf(c);
    if (!id.ok) return id.answer;
    const { tenantId } = c.var.apiKey;
    const revoked = await withDatabase(c, () => revokeApiKey(pool, id.apiKeyId, clock.nowMs(), tenantId));
    if (!revoked.ok) return revoked.answer;
    return revoked.value === undefined ? fail(c, '404-01') : c.body(null, 204);
  };
}
