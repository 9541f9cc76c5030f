import { topicOf } from '../../../shared/contracts/kinds.ts';
import { answerHeaders } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { findExportedKind } from '../../../shared/postgres/export-kinds.ts';
import { readExportPage } from '../../../shared/postgres/export-page.ts';
import {
  areWithin,
  type ExportPositions,
  formatExportPositions,
  parseExportPositions,
  readExportEnd,
} from '../../../shared/postgres/export-positions.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { readCursor, writeCursor } from '../../request/cursor.ts';
import { readPathId } from '../../request/path-id.ts';
import { readPageQuery } from '../../request/query.ts';

/** The header with the `cursor` of the next request. */
export const CURSOR_HEADER = 'sluice-cursor';
/** The header that says whether the next request finds more rows than this one, `true` or `false`. */
export const MORE_HEADER = 'sluice-more';

/** The media type of rows, one JSON object per line. */
export const NDJSON = 'application/x-ndjson';

/** The detail of a 400-01 for a cursor of another export, or beyond what is stored. */
export const UNKNOWN_EXPORT_CURSOR = {
  path: 'cursor',
  message: `must be the ${CURSOR_HEADER} of an earlier answer for this kind; after a restore of the database, start without one`,
};

/**
 * Handles `GET /admin/v1/export/{kind}`: the rows of the caller's tenant in the order in which workers read
 * the records. Every answer has a cursor, also the last one: it continues with what is stored later.
 */
export function exportOperation(pool: Pool, topicPrefix: string) {
  return async (c: HttpContext): Promise<Response> => {
    const path = readPathId(c, (name) => findExportedKind(name) !== undefined);
    if (path.refusal?.code === '400-01') return refuse(c, path.refusal);
    const query = readPageQuery(new URL(c.req.url).searchParams, ['limit', 'cursor']);
    if (!query.ok) return fail(c, '400-01', [query.detail]);
    if (path.refusal) return refuse(c, path.refusal);
    const { tenantId } = c.var.apiKey;
    const list = [tenantId, 'export', path.id];
    const from = readFrom(list, query.values.cursor);
    if (!from) return fail(c, '400-01', [UNKNOWN_EXPORT_CURSOR]);
    const kind = findExportedKind(path.id)!;
    const found = await withDatabase(c, async () => {
      const end = await readExportEnd(pool, topicOf(topicPrefix, kind.kind));
      if (!areWithin(from, end)) return undefined;
      return await readExportPage(pool, kind, { tenantId, from, end, limit: query.limit });
    });
    if (found.refusal) return refuse(c, found.refusal);
    if (!found.value) return fail(c, '400-01', [UNKNOWN_EXPORT_CURSOR]);
    const { rows, next, isLast } = found.value;
    const headers = answerHeaders(c);
    headers['content-type'] = NDJSON;
    headers[CURSOR_HEADER] = writeCursor(list, formatExportPositions(next));
    headers[MORE_HEADER] = String(!isLast);
    return new Response(rows.map((row) => `${row}\n`).join(''), { status: 200, headers });
  };
}

/** Returns the positions of a cursor; undefined if it is not one of this list. */
function readFrom(list: readonly string[], cursor: string | undefined): ExportPositions | undefined {
  if (cursor === undefined) return new Map();
  const place = readCursor(list, cursor);
  return place === undefined ? undefined : parseExportPositions(place);
}
