import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import {
  cancelRecovery,
  describeRecoveries,
  describeRecovery,
  findRecoveries,
  listRecoveries,
} from '../../../shared/postgres/deliveries/recoveries.ts';
import { readCursor, UNKNOWN_CURSOR, writeCursor } from '../../request/cursor.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';
import { readPageQuery } from '../../request/query.ts';
import type { DeliveriesDeps } from './list.ts';

/** Handles `GET /admin/v1/jobs`: a page of the tenant's jobs, newest first. */
export function listJobsOperation({ pool }: DeliveriesDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const query = readPageQuery(new URL(c.req.url).searchParams, ['limit', 'cursor']);
    if (!query.ok) return fail(c, '400-01', [query.detail]);
    const { limit, values } = query;
    const { tenantId } = c.var.apiKey;
    const list = [tenantId, 'jobs'];
    const after = values.cursor === undefined ? undefined : readCursor(list, values.cursor);
    if (values.cursor !== undefined && after === undefined) return fail(c, '400-01', [UNKNOWN_CURSOR]);
    const found = await withDatabase(c, async () => {
      // Reads one row more than the limit, to detect whether there is a next page.
      const recoveries = await listRecoveries(pool, [tenantId], { after, limit: limit + 1 });
      const items = await describeRecoveries(pool, recoveries.slice(0, limit));
      return { items, hasMore: recoveries.length > limit };
    });
    if (found.refusal) return refuse(c, found.refusal);
    const { items, hasMore } = found.value;
    return answerJson(c, { items, ...(hasMore && { next: writeCursor(list, items.at(-1)!.jobId) }) });
  };
}

/** Handles `GET /admin/v1/jobs/{jobId}`: how far a job is. */
export function showJobOperation({ pool }: DeliveriesDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const path = readPathId(c, isStorable);
    if (path.refusal) return refuse(c, path.refusal);
    const found = await withDatabase(c, async () => {
      const [job] = await findRecoveries(pool, [c.var.apiKey.tenantId], path.id);
      return job && (await describeRecovery(pool, job));
    });
    if (found.refusal) return refuse(c, found.refusal);
    return found.value ? answerJson(c, found.value) : fail(c, '404-01');
  };
}

/** Handles `POST /admin/v1/jobs/{jobId}/cancel`: ends a job. Succeeds too if it was cancelled before. */
export function cancelJobOperation({ pool, clock }: DeliveriesDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const path = readPathId(c, isStorable, 1);
    if (path.refusal) return refuse(c, path.refusal);
    const { tenantId } = c.var.apiKey;
    const cancelled = await withDatabase(c, async () => {
      const job = await cancelRecovery(pool, tenantId, path.id, clock.nowMs());
      return job && (await describeRecovery(pool, job));
    });
    if (cancelled.refusal) return refuse(c, cancelled.refusal);
    const job = cancelled.value;
    if (!job) return fail(c, '404-01');
    if (job.state === 'cancelled') return answerJson(c, job);
    return fail(c, '409-01', [{ path: 'jobId', message: JOB_ENDED }]);
  };
}

/** The message of a 409-01 for a job that cannot be cancelled any more. */
const JOB_ENDED = 'has ended already';
