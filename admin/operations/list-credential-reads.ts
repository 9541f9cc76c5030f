import type { ErrorDetail } from '../../shared/contracts/errors.ts';
import { CONVERSATION_ID_TEXT, isConversationId } from '../../shared/http/conversation-id.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';
import type { CredentialRead } from '../../shared/postgres/insert-credential-read.ts';
import {
  type CredentialReadPlace,
  listCredentialReads,
} from '../../shared/postgres/list-credential-reads.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { withDatabase } from '../database.ts';

const LIMIT_STANDARD = 100;
const LIMIT_MAX = 1000;
const PARAMETERS = ['conversationId', 'limit', 'before'];

interface Query {
  readonly conversationId: string | undefined;
  readonly limit: number;
  readonly before: CredentialReadPlace | undefined;
}

/**
 * `GET /internal/v1/credential-reads?conversationId=&limit=&before=`: who read the tenant's credentials, newest first.
 * `next` is there when there is more: it is the `before` of the next page.
 */
export function listCredentialReadsOperation(pool: Pool) {
  return async (c: HttpContext): Promise<Response> => {
    const query = readQuery(new URL(c.req.url).searchParams);
    if (!query.ok) return fail(c, '400-01', [query.detail]);
    const { limit, ...filter } = query.value;
    const found = await withDatabase(c, () =>
      // One more than asked for tells whether there is a next page.
      listCredentialReads(pool, { tenantIds: [c.var.apiKey.tenantId], ...filter, limit: limit + 1 }),
    );
    if (!found.ok) return found.answer;
    const reads = found.value.slice(0, limit);
    const more = found.value.length > limit;
    return c.json({ items: reads.map(answerOf), ...(more ? { next: placeAfter(reads.at(-1)!) } : {}) });
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
  for (const name of parameters.keys()) {
    if (!PARAMETERS.includes(name)) {
      return refuse('query', `must hold no parameters but ${PARAMETERS.join(', ')}`);
    }
    if (parameters.getAll(name).length > 1) return refuse(name, 'must be given once');
  }
  const conversationId = parameters.get('conversationId') ?? undefined;
  if (conversationId !== undefined && !isConversationId(conversationId)) {
    return refuse('conversationId', CONVERSATION_ID_TEXT);
  }
  const limit = parameters.get('limit') ?? String(LIMIT_STANDARD);
  if (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > LIMIT_MAX) {
    return refuse('limit', `must be a whole number from 1 to ${LIMIT_MAX}`);
  }
  const cursor = parameters.get('before');
  const before = cursor === null ? undefined : readPlace(cursor);
  if (cursor !== null && !before) return refuse('before', 'must be the next of an earlier answer');
  return { ok: true, value: { conversationId, limit: Number(limit), before } };
}

function placeAfter({ readAtMs, readId }: CredentialRead): string {
  return `${readAtMs}.${readId}`;
}

function readPlace(text: string): CredentialReadPlace | undefined {
  const match = /^(\d{1,14})\.([0-9A-Z]{1,32})$/.exec(text);
  return match ? { readAtMs: Number(match[1]), readId: match[2]! } : undefined;
}
