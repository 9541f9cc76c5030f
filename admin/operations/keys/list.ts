import { answerJson } from '../../../shared/http/answers.ts';
import { describeApiKey } from '../../../shared/http/api-key-auth/describe-api-key.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { listApiKeys } from '../../../shared/postgres/api-keys.ts';
import { isKeyId, readPathId } from '../../request/path-id.ts';
import { readPageQuery } from '../../request/query.ts';
import type { KeysDeps } from './create.ts';

/**
 * Handles `GET /admin/v1/keys?limit=&after=`: lists the API keys of the caller's tenant, oldest
 * first, without their secrets. `next`, if present, is the `after` of the next page.
 */
export function listKeysOperation({ pool, clock }: Pick<KeysDeps, 'pool' | 'clock'>) {
  return async (c: HttpContext): Promise<Response> => {
    const query = readPageQuery(new URL(c.req.url).searchParams, ['limit', 'after']);
    if (!query.ok) return fail(c, '400-01', [query.detail]);
    const { limit } = query;
    const after = query.values.after;
    const { tenantId } = c.var.apiKey;
    const found = await withDatabase(c, async () => {
      if (after !== undefined && !(await isKeyOf(after, tenantId))) return undefined;
      // Reads one row more than the limit, to detect whether there is a next page.
      return await listApiKeys(pool, { tenantId, after, limit: limit + 1 });
    });
    if (found.refusal) return refuse(c, found.refusal);
    if (!found.value) {
      return fail(c, '400-01', [{ path: 'after', message: 'must be the next of an earlier answer' }]);
    }
    const nowMs = clock.nowMs();
    const items = found.value.slice(0, limit).map((key) => describeApiKey(key, nowMs));
    const hasMore = found.value.length > limit;
    return answerJson(c, { items, ...(hasMore ? { next: items.at(-1)!.apiKeyId } : {}) });
  };

  async function isKeyOf(apiKeyId: string, tenantId: string): Promise<boolean> {
    return isKeyId(apiKeyId) && (await listApiKeys(pool, { tenantId, apiKeyId })).length > 0;
  }
}

/** Handles `GET /admin/v1/keys/{apiKeyId}`: returns one API key without its secret. */
export function showKeyOperation({ pool, clock }: Pick<KeysDeps, 'pool' | 'clock'>) {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isKeyId);
    if (id.refusal) return refuse(c, id.refusal);
    const apiKeyId = id.id;
    const { tenantId } = c.var.apiKey;
    const found = await withDatabase(c, () => listApiKeys(pool, { tenantId, apiKeyId }));
    if (found.refusal) return refuse(c, found.refusal);
    const [key] = found.value;
    return key ? answerJson(c, describeApiKey(key, clock.nowMs())) : fail(c, '404-01');
  };
}
