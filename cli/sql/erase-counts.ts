import { COUNT_COLUMNS } from '../../shared/message-sent/counts.ts';
import { blankConversations } from '../../shared/message-sent/delta.ts';
import { waitForCompaction } from '../../shared/postgres/message-sent-deltas.ts';
import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import type { ErasureScope } from '../erase/scope.ts';

const DELTAS_MAX = 200;

/** The position of a delta among those of a tenant. */
export interface DeltaPlace {
  readonly quarterHourMs: number;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
}

/**
 * Blanks the conversations of some deltas after a place. Resolves with the number of changed deltas,
 * and the place of the last one; undefined: there are no more.
 */
export async function blankDeltas(
  pool: Pool,
  { tenantId, conversationIds, conversations }: ErasureScope,
  after: DeltaPlace | undefined,
): Promise<{ readonly changed: number; readonly last: DeltaPlace | undefined }> {
  const isErased = (id: string, externalId: string) =>
    conversationIds.includes(id) || conversations.includes(externalId);
  return await inTransaction(pool, async (db) => {
    // Compaction could otherwise write what was read before.
    await waitForCompaction(db);
    const { rows } = await db.query<DeltaPlace & { conversations: Buffer }>(
      `select ${epochMs('quarter_hour')} as "quarterHourMs", generation, partition, "offset", conversations
         from message_sent_deltas
        where tenant_id = $1 and (quarter_hour, generation, partition, "offset") > ($2::timestamptz, $3::int, $4::int, $5::bigint)
        order by quarter_hour, generation, partition, "offset" limit $6`,
      [
        tenantId,
        new Date(after?.quarterHourMs ?? 0),
        after?.generation ?? -1,
        after?.partition ?? -1,
        after?.offset ?? -1n,
        DELTAS_MAX,
      ],
    );
    let changed = 0;
    for (const row of rows) {
      const blanked = blankConversations(row.conversations, isErased);
      if (!blanked) continue;
      changed += 1;
      await db.query(
        `update message_sent_deltas set conversations = $6
          where tenant_id = $1 and quarter_hour = $2 and generation = $3 and partition = $4 and "offset" = $5`,
        [tenantId, new Date(row.quarterHourMs), row.generation, row.partition, row.offset, blanked],
      );
    }
    return { changed, last: rows.length < DELTAS_MAX ? undefined : rows.at(-1) };
  });
}

const ROWS_MAX = 1000;

/** Moves sums of conversations to those without an id, at most 1000, and resolves with their number. */
export async function blankSums(
  pool: Pool,
  { tenantId, conversationIds, conversations }: ErasureScope,
): Promise<number> {
  const sums = COUNT_COLUMNS.map((name) => `sum(moved.${name})`).join(', ');
  const added = COUNT_COLUMNS.map((name) => `${name} = s.${name} + excluded.${name}`).join(', ');
  return await inTransaction(pool, async (db) => {
    await waitForCompaction(db);
    const { rows } = await db.query<{ moved: number }>(
      `with chosen as (
         select quarter_hour, conversation_id, external_conversation_id
           from message_sent_conversations
          where tenant_id = $1 and (conversation_id = any($2::text[]) or external_conversation_id = any($3::text[]))
          limit $4
       ), moved as (
         delete from message_sent_conversations c
          using chosen
          where c.tenant_id = $1 and c.quarter_hour = chosen.quarter_hour and c.conversation_id = chosen.conversation_id
            and c.external_conversation_id = chosen.external_conversation_id
         returning c.quarter_hour, ${COUNT_COLUMNS.map((name) => `c.${name}`).join(', ')}
       ), added as (
         insert into message_sent_conversations as s
           (tenant_id, quarter_hour, conversation_id, external_conversation_id, ${COUNT_COLUMNS.join(', ')})
         select $1, moved.quarter_hour, '', '', ${sums} from moved group by moved.quarter_hour
         on conflict (tenant_id, quarter_hour, conversation_id, external_conversation_id) do update set ${added}
         returning tenant_id
       )
       select count(*)::int as moved from moved`,
      [tenantId, conversationIds, conversations, ROWS_MAX],
    );
    return rows[0]!.moved;
  });
}

/** Deletes pairs of ids that conversations had. Resolves with their number. */
export async function deleteEarlierIds(
  pool: Pool,
  { tenantId, conversationIds, conversations }: ErasureScope,
): Promise<number> {
  return await inTransaction(pool, async (db) => {
    // A rebuild of counts could otherwise write what it read before.
    await waitForCompaction(db);
    const { rowCount } = await db.query(
      `delete from earlier_conversation_ids
        where tenant_id = $1 and (conversation_id = any($2::text[]) or external_conversation_id = any($3::text[]))`,
      [tenantId, conversationIds, conversations],
    );
    return rowCount ?? 0;
  });
}
