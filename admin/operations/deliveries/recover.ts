import type { z } from 'zod';
import type { Clock } from '../../../shared/clock.ts';
import { arrayOf, objectOf, oneOf, timestampField } from '../../../shared/contracts/fields.ts';
import { validateKnown } from '../../../shared/contracts/known-members.ts';
import { parseTimestampNs } from '../../../shared/contracts/timestamps.ts';
import { AppError } from '../../../shared/errors.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { IdGenerator } from '../../../shared/ids.ts';
import { ENDED_STATES } from '../../../shared/postgres/deliveries/delivery.ts';
import {
  createRecovery,
  describeRecovery,
  type EndedState,
  RECOVERED_STATES,
  RECOVERY_ENDPOINT_UNKNOWN,
  RECOVERY_REFUSED,
} from '../../../shared/postgres/deliveries/recoveries.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';
import { REVERSED_RANGE } from './list.ts';

export const recoverySchema = objectOf({
  from: timestampField.describe('Deliveries of webhooks that were stored from this time on.'),
  to: timestampField
    .nullish()
    .describe('Only those that were stored before this time; omitted, or in the future: until now.'),
  states: arrayOf(oneOf(ENDED_STATES), { ifEmpty: 'must have at least one entry' })
    .nullish()
    .describe(
      `The states in which they ended; omitted: ${RECOVERED_STATES.join(' and ')}. With \`delivered\`, the receiver gets ` +
        'webhooks that it has accepted again.',
    ),
});

export interface RecoverDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
}

/**
 * Handles `POST /admin/v1/webhooks/{endpointId}/recover`: starts a job that sends ended deliveries of an
 * endpoint again.
 */
export function recoverOperation({ pool, clock, nextId }: RecoverDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const path = readPathId(c, isStorable, 1);
    if (path.refusal) return refuse(c, path.refusal);
    const parsed = validateKnown(c.var.body, recoverySchema);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const { from, to, states } = parsed.value as z.output<typeof recoverySchema>;
    const nowMs = clock.nowMs();
    const fromMs = millisecondsOf(from);
    const toMs = to ? millisecondsOf(to) : nowMs;
    if (toMs <= fromMs) return fail(c, '422-01', [to ? REVERSED_RANGE : FROM_IN_FUTURE]);
    const { tenantId, apiKeyId } = c.var.apiKey;
    const started = await withDatabase(c, async () => {
      const recovery = await createRecovery(pool, {
        tenantId,
        endpointId: path.id,
        jobId: nextId(),
        fromMs,
        toMs,
        states: states ? [...new Set(states as EndedState[])] : RECOVERED_STATES,
        createdBy: apiKeyId,
        nowMs,
      }).catch(refusalOf);
      return recovery instanceof AppError ? recovery : await describeRecovery(pool, recovery);
    });
    if (started.refusal) return refuse(c, started.refusal);
    if (!(started.value instanceof AppError)) return answerJson(c, started.value, 201);
    if (started.value.code === RECOVERY_ENDPOINT_UNKNOWN) return fail(c, '404-01');
    return fail(c, '409-01', [{ path: 'endpointId', message: started.value.message }]);
  };
}

const FROM_IN_FUTURE = { path: 'from', message: 'must be in the past' };

function millisecondsOf(time: string): number {
  return Number(parseTimestampNs(time)! / 1_000_000n);
}

/** Returns the error if it is a refusal of the request; rethrows any other error. */
function refusalOf(error: unknown): AppError {
  if (error instanceof AppError && [RECOVERY_ENDPOINT_UNKNOWN, RECOVERY_REFUSED].includes(error.code)) {
    return error;
  }
  throw error;
}
