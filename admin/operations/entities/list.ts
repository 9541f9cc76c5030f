import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { describeEntity, listEntities } from '../../../shared/postgres/entities.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { readEntityFilter, type StoredEntities } from '../../../shared/postgres/stored-entities.ts';
import { readCursor, UNKNOWN_CURSOR, writeCursor } from '../../request/cursor.ts';
import { readPageQuery } from '../../request/query.ts';

/**
 * Handles `GET /admin/v1/agents` and `GET /admin/v1/conversations`: lists the entities of the
 * caller's tenant by id, all or those that match the filters. `next`, if present, is the `cursor` of
 * the next page.
 */
export function listEntitiesOperation(pool: Pool, entities: StoredEntities) {
  const { tables } = entities;
  const filters = Object.keys(entities.filters.shape);
  return async (c: HttpContext): Promise<Response> => {
    const query = readPageQuery(new URL(c.req.url).searchParams, [...filters, 'limit', 'cursor']);
    if (!query.ok) return fail(c, '400-01', [query.detail]);
    const { cursor } = query.values;
    const texts = filters.map((name) => [name, query.values[name]] as const);
    const read = readEntityFilter(entities, Object.fromEntries(texts));
    if (!read.ok) return fail(c, '400-01', read.details);
    const { tenantId } = c.var.apiKey;
    const given = texts.filter(([, text]) => text !== undefined);
    const list = [tenantId, tables.current, ...given.map((filter) => filter.join('='))];
    const after = cursor === undefined ? undefined : readCursor(list, cursor);
    if (cursor !== undefined && after === undefined) return fail(c, '400-01', [UNKNOWN_CURSOR]);
    const found = await withDatabase(c, () =>
      listEntities(pool, tables, { tenantId, filter: read.filter, after, limit: query.limit }),
    );
    if (found.refusal) return refuse(c, found.refusal);
    const { entities: items, next } = found.value;
    return answerJson(c, {
      items: items.map((entity) => describeEntity(tables, entity)),
      ...(next === undefined ? {} : { next: writeCursor(list, next) }),
    });
  };
}
