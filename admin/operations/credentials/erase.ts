import type { Clock } from '../../../shared/clock.ts';
import { answerEmpty } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { IdGenerator } from '../../../shared/ids.ts';
import { eraseCredentials } from '../../../shared/postgres/credentials.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import type { TenantSlots } from '../../limits/tenant-slots.ts';

export interface EraseCredentialsDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  /** Limits the erasure steps that run concurrently, per tenant and in total. */
  readonly slots: TenantSlots;
}

/**
 * Handles `DELETE /internal/v1/conversations/{conversationId}/credentials`: erases all submissions
 * of the caller's tenant for the conversation so far. Answers 204, even if there were none. The
 * erasure is recorded in the audit.
 */
export function eraseCredentialsOperation({ pool, clock, nextId, slots }: EraseCredentialsDeps) {
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
        (step) => slots.run(tenantId, step),
      ),
    );
    return erased.refusal ? refuse(c, erased.refusal) : answerEmpty(c, 204);
  };
}
