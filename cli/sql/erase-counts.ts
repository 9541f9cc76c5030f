import { QUARTER_HOUR_MINUTES } from '../../shared/message-sent/blocks.ts';
import { COUNT_COLUMNS } from '../../shared/message-sent/counts.ts';
import { blankConversations } from '../../shared/message-sent/delta.ts';
import { waitForCompaction } from '../../shared/postgres/message-sent-deltas.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import type { ErasureScope } from '../erase/scope.ts';

const DELTAS_MAX = 200;

function isIn({ conversationIds, conversations }: Pick<ErasureScope, 'conversationIds' | 'conversations'>) {
  const ids = new Set(conversationIds);
  const externalIds = new Set(conversations);
  return (id: string, externalId: string) => ids.has(id) || externalIds.has(externalId);
}

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
  const isErased = isIn({ conversationIds, conversations });
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

const BLOCKS_MS = 7 * 86_400_000;

/** Resolves with when a tenant's first and last blocks with conversations begin; undefined if it has none. */
export async function blockTimes(
  db: Queryable,
  tenantId: string,
): Promise<{ readonly firstMs: number; readonly lastMs: number } | undefined> {
  const { rows } = await db.query<{ firstMs: number | null; lastMs: number }>(
    `select min(${epochMs('starts_at')}) as "firstMs", max(${epochMs('starts_at')}) as "lastMs"
       from message_sent_blocks where tenant_id = $1 and minutes = ${QUARTER_HOUR_MINUTES}`,
    [tenantId],
  );
  const { firstMs, lastMs } = rows[0]!;
  return firstMs === null ? undefined : { firstMs, lastMs };
}

/**
 * Blanks the conversations of the blocks of a week. Resolves with the number of changed blocks, and
 * where the next week begins.
 */
export async function blankBlocks(
  pool: Pool,
  { tenantId, conversationIds, conversations }: ErasureScope,
  fromMs: number,
): Promise<{ readonly changed: number; readonly nextMs: number }> {
  const isErased = isIn({ conversationIds, conversations });
  const nextMs = fromMs + BLOCKS_MS;
  const changed = await inTransaction(pool, async (db) => {
    // Compaction could otherwise write what was read before.
    await waitForCompaction(db);
    const { rows } = await db.query<{ startMs: number; conversations: Buffer }>(
      `select ${epochMs('starts_at')} as "startMs", conversations
         from message_sent_blocks
        where tenant_id = $1 and minutes = ${QUARTER_HOUR_MINUTES} and starts_at >= $2 and starts_at < $3
          and exists (select 1 from unnest($4::text[]) as id where position(convert_to(id, 'UTF8') in conversations) > 0)`,
      [tenantId, new Date(fromMs), new Date(nextMs), [...conversationIds, ...conversations]],
    );
    let blanked = 0;
    for (const row of rows) {
      const bytes = blankConversations(row.conversations, isErased);
      if (!bytes) continue;
      blanked += 1;
      await db.query(
        `update message_sent_blocks set conversations = $3
          where tenant_id = $1 and minutes = ${QUARTER_HOUR_MINUTES} and starts_at = $2`,
        [tenantId, new Date(row.startMs), bytes],
      );
    }
    return blanked;
  });
  return { changed, nextMs };
}

const ROWS_MAX = 1000;

/**
 * Moves sums of conversations, which workers of an earlier release wrote, to those without an id, at
 * most 1000, and resolves with their number.
 */
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
export async function deletePairs(
  pool: Pool,
  { tenantId, conversationIds, conversations }: ErasureScope,
): Promise<number> {
  return await inTransaction(pool, async (db) => {
    // A rebuild of counts could otherwise write what it read before.
    await waitForCompaction(db);
    const { rowCount } = await db.query(
      `delete from conversation_id_pairs
        where tenant_id = $1 and (conversation_id = any($2::text[]) or external_conversation_id = any($3::text[]))`,
      [tenantId, conversationIds, conversations],
    );
    return rowCount ?? 0;
  });
}
