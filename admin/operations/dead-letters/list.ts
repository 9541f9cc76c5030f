import { readFirstPosition, writeFirstPosition } from '../../../shared/contracts/first-position.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { type DeadLetterPlace, listDeadLetters } from '../../../shared/postgres/dead-letter-lists.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { isStorableTime } from '../../../shared/postgres/times.ts';
import { readCursor, UNKNOWN_CURSOR, writeCursor } from '../../request/cursor.ts';
import { readPageQuery } from '../../request/query.ts';
import { describeDeadLetter } from './describe.ts';
import { readListFilter } from './filter.ts';

const FILTERS = ['kind', 'reason', 'from', 'to', 'state'] as const;

/**
 * Handles `GET /admin/v1/dead-letters`: lists the dead letters of the caller's tenant, newest first.
 * `next`, if present, is the `cursor` of the next page.
 */
export function listDeadLettersOperation(pool: Pool, topicPrefix: string) {
  return async (c: HttpContext): Promise<Response> => {
    const query = readPageQuery(new URL(c.req.url).searchParams, [...FILTERS, 'limit', 'cursor']);
    if (!query.ok) return fail(c, '400-01', [query.detail]);
    const { limit, values } = query;
    const { tenantId } = c.var.apiKey;
    const texts = Object.fromEntries(FILTERS.map((name) => [name, values[name]]));
    const read = readListFilter(texts, { tenantId, topicPrefix });
    if (!read.ok) return refuse(c, read.refusal);
    const given = FILTERS.filter((name) => values[name] !== undefined);
    const list = [tenantId, 'dead-letters', ...given.map((name) => `${name}=${values[name]}`)];
    const after = values.cursor === undefined ? undefined : readCursor(list, values.cursor);
    const place = after === undefined ? undefined : readPlace(after);
    if (values.cursor !== undefined && !place) return fail(c, '400-01', [UNKNOWN_CURSOR]);
    const found = await withDatabase(c, () => listDeadLetters(pool, read.filter, limit + 1, place));
    if (found.refusal) return refuse(c, found.refusal);
    const letters = found.value.slice(0, limit);
    const hasMore = found.value.length > limit;
    return answerJson(c, {
      items: letters.map(describeDeadLetter),
      ...(hasMore ? { next: writeCursor(list, writePlace(letters.at(-1)!)) } : {}),
    });
  };
}

function writePlace(place: DeadLetterPlace): string {
  return `${place.failedAtMs} ${writeFirstPosition(place)}`;
}

function readPlace(text: string): DeadLetterPlace | undefined {
  const end = text.indexOf(' ');
  const failedAtMs = Number(text.slice(0, end));
  const position = readFirstPosition(text.slice(end + 1));
  return position && isStorableTime(failedAtMs) ? { failedAtMs, ...position } : undefined;
}
