import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import {
  DATA_QUALITY_PARAMETERS,
  readDataQualityQuery,
  reportDataQuality,
} from '../../../shared/reports/data-quality-report.ts';
import { readQuery } from '../../request/query.ts';

/**
 * Handles `GET /admin/v1/analytics/data-quality`: counts what is wrong with the records of the
 * caller's tenant.
 */
export function dataQualityOperation(pool: Pool) {
  return async (c: HttpContext): Promise<Response> => {
    const parameters = readQuery(new URL(c.req.url).searchParams, DATA_QUALITY_PARAMETERS);
    if (!parameters.ok) return fail(c, '400-01', [parameters.detail]);
    const read = readDataQualityQuery(parameters.values);
    if (!read.ok) return fail(c, '422-01', read.details);
    const found = await withDatabase(c, () => reportDataQuality(pool, c.var.apiKey.tenantId, read.query));
    return found.refusal ? refuse(c, found.refusal) : answerJson(c, found.value);
  };
}
