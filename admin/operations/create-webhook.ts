import type { Clock } from '../../shared/clock.ts';
import { readEndpointRequest } from '../../shared/contracts/webhook-endpoints.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { KeyRing } from '../../shared/keyring.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { type AllowRule, urlProblem } from '../../shared/webhooks/addresses.ts';
import { createWebhookEndpoint } from '../../shared/webhooks/create-endpoint.ts';
import { withDatabase } from '../database.ts';

export interface CreateWebhookDeps {
  readonly pool: Pool;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly allow: readonly AllowRule[];
}

/** `POST /admin/v1/webhooks`: adds an endpoint. Its secret is in this answer and in no other. */
export function createWebhookOperation({ pool, keyRing, clock, nextId, allow }: CreateWebhookDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const parsed = readEndpointRequest(c.var.body);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const { url, eventTypes } = parsed.request;
    const problem = urlProblem(url, allow);
    if (problem !== undefined) return fail(c, '422-01', [{ path: 'url', message: problem }]);

    const { tenantId } = c.var.apiKey;
    const created = await withDatabase(c, () =>
      createWebhookEndpoint({ db: pool, keyRing, clock, nextId }, { tenantId, url, eventTypes }),
    );
    return created.ok ? c.json(created.value, 201) : created.answer;
  };
}
