import { compareText } from '../../shared/compare-text.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/** The two ids of a conversation. */
export interface ConversationIdPair {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly externalConversationId: string;
  readonly reportedAtMs: number;
}

const COLUMNS: readonly Column<ConversationIdPair>[] = [
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'conversation_id', type: 'text', value: ({ conversationId }) => conversationId },
  {
    name: 'external_conversation_id',
    type: 'text',
    value: ({ externalConversationId }) => externalConversationId,
  },
  { name: 'reported_at', type: 'timestamptz', value: ({ reportedAtMs }) => reportedAtMs },
];

/** Stores pairs (distinct), with the time at which each was reported last. */
export async function addConversationIdPairs(
  db: Queryable,
  pairs: readonly ConversationIdPair[],
): Promise<void> {
  await insertRows(
    withoutAnswer(db),
    'conversation_id_pairs',
    COLUMNS,
    [...pairs].sort(byIds),
    `on conflict (tenant_id, conversation_id, external_conversation_id) do update set
       reported_at = excluded.reported_at where conversation_id_pairs.reported_at < excluded.reported_at`,
  );
}

function byIds(a: ConversationIdPair, b: ConversationIdPair): number {
  return (
    compareText(a.tenantId, b.tenantId) ||
    compareText(a.conversationId, b.conversationId) ||
    compareText(a.externalConversationId, b.externalConversationId)
  );
}
