import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { EntityId } from './entity-tables.ts';

/** A conversation's id in an automation event that is not its last one. */
export interface EarlierConversationId extends EntityId {
  readonly conversationId: string;
  readonly reportedAtMs: number;
}

const COLUMNS: readonly Column<EarlierConversationId>[] = [
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'conversation_id', type: 'text', value: ({ conversationId }) => conversationId },
  { name: 'external_conversation_id', type: 'text', value: ({ entity }) => entity },
  { name: 'reported_at', type: 'timestamptz', value: ({ reportedAtMs }) => reportedAtMs },
];

/** Stores ids (distinct, sorted by all three). */
export async function addEarlierConversationIds(
  db: Queryable,
  ids: readonly EarlierConversationId[],
): Promise<void> {
  await insertRows(
    withoutAnswer(db),
    'earlier_conversation_ids',
    COLUMNS,
    ids,
    `on conflict (tenant_id, conversation_id, external_conversation_id) do update set
       reported_at = greatest(earlier_conversation_ids.reported_at, excluded.reported_at)`,
  );
}
