import { describeApiKey } from '../../shared/describe-api-key.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';
import { listApiKeys } from '../../shared/postgres/list-api-keys.ts';
import { withDatabase } from '../database.ts';
import { keyIdOf } from '../key-id.ts';
import type { KeysDeps } from './create-key.ts';

/** `GET /admin/v1/keys`: the keys of the caller's tenant, oldest first, without their secrets. */
export function listKeysOperation({ pool, clock }: Pick<KeysDeps, 'pool' | 'clock'>) {
  return async (c: HttpContext): Promise<Response> => {
    const found = await withDatabase(c, () => listApiKeys(pool, c.var.apiKey.tenantId));
    if (!found.ok) return found.answer;
    const nowMs = clock.nowMs();
    return c.json({ items: found.value.map((key) => describeApiKey(key, nowMs)) });
  };
}

/** `GET /admin/v1/keys/{apiKeyId}`: one of them. */
export function showKeyOperation({ pool, clock }: Pick<KeysDeps, 'pool' | 'clock'>) {
  return async (c: HttpContext): Promise<Response> => {
    const id = keyIdOf(c);
    if (!id.ok) return id.answer;
    const found = await withDatabase(c, () => listApiKeys(pool, c.var.apiKey.tenantId, id.apiKeyId));
    if (!found.ok) return found.answer;
    const [key] = found.value;
    return key ? c.json(describeApiKey(key, clock.nowMs())) : fail(c, '404-01');
  };
}
