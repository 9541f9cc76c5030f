import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { describeEntity, findEntity } from '../../../shared/postgres/entities.ts';
import { describePatch, type HistoryPlace, listPatches } from '../../../shared/postgres/entity-history.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import type { StoredEntities } from '../../../shared/postgres/stored-entities.ts';
import { readCursor, UNKNOWN_CURSOR, writeCursor } from '../../request/cursor.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';
import { readPageQuery } from '../../request/query.ts';

type HistoryQuery =
  | {
      readonly ok: true;
      readonly wanted: boolean;
      readonly limit: number;
      readonly cursor: string | undefined;
    }
  | { readonly ok: false; readonly detail: ErrorDetail };

/**
 * Handles `GET /admin/v1/agents/{externalAgentId}` and
 * `GET /admin/v1/conversations/{externalConversationId}`: returns the current values of an entity of
 * the caller's tenant. With `history=true`, adds a page of the records from which they were merged.
 */
export function showEntityOperation(pool: Pool, { tables }: StoredEntities) {
  return async (c: HttpContext): Promise<Response> => {
    const path = readPathId(c, isStorable);
    if (path.refusal?.code === '400-01') return refuse(c, path.refusal);
    const query = readHistoryQuery(new URL(c.req.url).searchParams);
    if (!query.ok) return fail(c, '400-01', [query.detail]);
    if (path.refusal) return refuse(c, path.refusal);
    const { tenantId } = c.var.apiKey;
    const { id } = path;
    const list = [tenantId, tables.history, id];
    const after = query.cursor === undefined ? undefined : readPlace(readCursor(list, query.cursor));
    if (query.cursor !== undefined && !after) return fail(c, '400-01', [UNKNOWN_CURSOR]);
    const { wanted, limit } = query;
    const found = await withDatabase(c, async () => {
      const entity = await findEntity(pool, tables, tenantId, id);
      const page = { tenantId, id, after, limit };
      return entity && { entity, history: wanted ? await listPatches(pool, tables, page) : undefined };
    });
    if (found.refusal) return refuse(c, found.refusal);
    if (!found.value)
      return fail(c, '404-01', [{ path: tables.idMembers[1], message: 'is not known (yet)' }]);
    const { entity, history } = found.value;
    return answerJson(c, {
      ...describeEntity(tables, entity),
      ...(history && {
        history: {
          items: history.patches.map(describePatch),
          ...(history.next && { next: writeCursor(list, writePlace(history.next)) }),
        },
      }),
    });
  };
}

function readHistoryQuery(parameters: URLSearchParams): HistoryQuery {
  const refused = (path: string, message: string) => ({ ok: false as const, detail: { path, message } });
  const query = readPageQuery(parameters, ['history', 'limit', 'cursor']);
  if (!query.ok) return query;
  const { history = 'false', cursor } = query.values;
  if (history !== 'true' && history !== 'false') return refused('history', 'must be true or false');
  const ofHistory = (['cursor', 'limit'] as const).find((name) => query.values[name] !== undefined);
  if (history === 'false' && ofHistory) return refused(ofHistory, 'needs history=true');
  return { ok: true, wanted: history === 'true', limit: query.limit, cursor };
}

function writePlace({ generation, offset }: HistoryPlace): string {
  return `${generation}.${offset}`;
}

function readPlace(text: string | undefined): HistoryPlace | undefined {
  const match = /^(\d{1,9})\.(\d{1,18})$/.exec(text ?? '');
  return match ? { generation: Number(match[1]), offset: BigInt(match[2]!) } : undefined;
}
