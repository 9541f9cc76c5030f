import type { Clock } from '../../../shared/clock.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import type { IdGenerator } from '../../../shared/ids.ts';
import { eraseCredentials } from '../../../shared/postgres/credentials.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import type { TenantTurns } from '../../limits/tenant-turns.ts';
import { withDatabase } from '../../request/database.ts';

export interface EraseCredentialsDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  /** For the steps of erasures. */
  readonly turns: TenantTurns;
}

/**
 * `DELETE /internal/v1/conversations/{conversationId}/credentials`: erases all submissions that the caller's tenant made
 * for it up to now. 204 whether there were any or not; the audit has a line of it.
 */
export function eraseCredentialsOperation({ pool, clock, nextId, turns }: EraseCredentialsDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const { tenantId, apiKeyId } = c.var.apiKey;
    const erased = await withDatabase(c, () =>
      eraseCredentials(
        pool,
        {
          tenantId,
          conversationId: c.req.param('conversationId')!,
          erasedAtMs: clock.nowMs(),
          readId: nextId(),
          apiKeyId,
          requestId: c.var.requestId,
        },
        (step) => turns.run(tenantId, step),
      ),
    );
    return erased.ok ? c.body(null, 204) : erased.answer;
  };
}
