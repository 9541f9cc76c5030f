import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import { CONVERSATION_ID_TEXT, isConversationId } from '../../../shared/http/conversation-id.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import {
  type CredentialRead,
  type CredentialReadPlace,
  listCredentialReads,
} from '../../../shared/postgres/credential-reads.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { readPageQuery } from '../../request/query.ts';

const PARAMETERS = ['conversationId', 'limit', 'before'] as const;

interface Query {
  readonly conversationId: string | undefined;
  readonly limit: number;
  readonly before: CredentialReadPlace | undefined;
}

/**
 * Handles `GET /internal/v1/credential-reads?conversationId=&limit=&before=`: lists the reads of
 * the tenant's credentials, newest first. `next`, if present, is the `before` of the next page.
 */
export function listCredentialReadsOperation(pool: Pool) {
  return async (c: HttpContext): Promise<Response> => {
    const query = readQuery(new URL(c.req.url).searchParams);
    if (!query.ok) return fail(c, '400-01', [query.detail]);
    const { limit, ...filter } = query.value;
    const found = await withDatabase(c, () =>
      // Reads one row more than the limit, to detect whether there is a next page.
      listCredentialReads(pool, { tenantIds: [c.var.apiKey.tenantId], ...filter, limit: limit + 1 }),
    );
    if (found.refusal) return refuse(c, found.refusal);
    const reads = found.value.slice(0, limit);
    const hasMore = found.value.length > limit;
    return answerJson(c, {
      items: reads.map(answerOf),
      ...(hasMore ? { next: placeAfter(reads.at(-1)!) } : {}),
    });
  };
}

function answerOf({
  readId,
  readAtMs,
  apiKeyId,
  requestId,
  conversationId,
  outcome,
  eventId,
}: CredentialRead) {
  return {
    readId,
    readAt: new Date(readAtMs).toISOString(),
    apiKeyId,
    requestId,
    conversationId,
    outcome,
    eventId,
  };
}

function readQuery(
  parameters: URLSearchParams,
): { readonly ok: true; readonly value: Query } | { readonly ok: false; readonly detail: ErrorDetail } {
  const refuse = (path: string, message: string) => ({ ok: false as const, detail: { path, message } });
  const query = readPageQuery(parameters, PARAMETERS);
  if (!query.ok) return query;
  const { conversationId, before: cursor } = query.values;
  if (conversationId !== undefined && !isConversationId(conversationId)) {
    return refuse('conversationId', CONVERSATION_ID_TEXT);
  }
  const before = cursor === undefined ? undefined : readPlace(cursor);
  if (cursor !== undefined && !before) return refuse('before', 'must be the next of an earlier answer');
  return { ok: true, value: { conversationId, limit: query.limit, before } };
}

function placeAfter({ readAtMs, readId }: CredentialRead): string {
  return `${readAtMs}.${readId}`;
}

function readPlace(text: string): CredentialReadPlace | undefined {
  const match = /^(\d{1,14})\.([0-9A-Z]{1,32})$/.exec(text);
  return match ? { readAtMs: Number(match[1]), readId: match[2]! } : undefined;
}
