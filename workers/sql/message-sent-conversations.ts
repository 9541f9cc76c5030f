import type { ConversationSums } from '../../shared/message-sent/delta.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { addedCounts, countColumns } from './message-sent-blocks.ts';
import type { DeltaGroup } from './message-sent-deltas.ts';

/**
 * Adds counts to the conversations of a quarter-hour (distinct). The caller is the only one who
 * writes these rows.
 */
export async function addToConversations(
  db: Queryable,
  group: DeltaGroup,
  conversations: readonly ConversationSums[],
): Promise<void> {
  const columns: Column<ConversationSums>[] = [
    { name: 'tenant_id', type: 'text', same: group.tenantId },
    { name: 'quarter_hour', type: 'timestamptz', same: group.quarterHourMs },
    { name: 'conversation_id', type: 'text', value: ({ conversationId }) => conversationId },
    {
      name: 'external_conversation_id',
      type: 'text',
      value: ({ externalConversationId }) => externalConversationId,
    },
    ...countColumns<ConversationSums>(),
  ];
  await insertRows(
    db,
    'message_sent_conversations',
    columns,
    conversations,
    `on conflict (tenant_id, quarter_hour, conversation_id, external_conversation_id) do update set
       ${addedCounts('message_sent_conversations')}
     returning conversation_id`,
  );
}
