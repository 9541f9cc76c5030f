import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import type { ReportResult } from '../../../shared/reports/report.ts';
import {
  REPORT_PARAMETERS,
  type ReportQuery,
  readReportQuery,
} from '../../../shared/reports/report-query.ts';
import { readQuery } from '../../request/query.ts';

/**
 * Handles the reports of `GET /admin/v1/analytics/…` on records of the caller's tenant. `groups`: the
 * values of `groupBy`.
 */
export function reportOperation<GroupBy extends string>(
  pool: Pool,
  groups: readonly GroupBy[],
  report: (pool: Pool, tenantId: string, query: ReportQuery<GroupBy>) => Promise<ReportResult<unknown>>,
) {
  return async (c: HttpContext): Promise<Response> => {
    const parameters = readQuery(new URL(c.req.url).searchParams, REPORT_PARAMETERS);
    if (!parameters.ok) return fail(c, '400-01', [parameters.detail]);
    const read = readReportQuery(parameters.values, groups);
    if (!read.ok) return fail(c, '422-01', read.details);
    const found = await withDatabase(c, () => report(pool, c.var.apiKey.tenantId, read.query));
    if (found.refusal) return refuse(c, found.refusal);
    const result = found.value;
    return result.ok ? answerJson(c, result.report) : fail(c, '422-01', result.details);
  };
}
