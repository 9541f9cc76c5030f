import { BLOCK_MINUTES, blockStartMs } from '../../shared/message-sent/blocks.ts';
import { COUNT_COLUMNS } from '../../shared/message-sent/counts.ts';
import { type ConversationSums, encodeRollups, type TypeSums } from '../../shared/message-sent/delta.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import type { DeltaGroup } from './message-sent-deltas.ts';

/** The counts of the messages of a block of time; see shared/message-sent/delta.ts for the bytes. */
export interface Block {
  readonly minutes: number;
  readonly startMs: number;
  readonly rollups: Buffer;
  /** Null for hours and days. */
  readonly conversations: Buffer | null;
}

/** Returns the blocks that contain a quarter-hour: its day, its hour and itself. */
export function blocksOf(quarterHourMs: number): Pick<Block, 'minutes' | 'startMs'>[] {
  return BLOCK_MINUTES.map((minutes) => ({ minutes, startMs: blockStartMs(minutes, quarterHourMs) }));
}

/** Resolves with the stored ones of the blocks that contain a quarter-hour. */
export async function readBlocks(db: Queryable, { tenantId, quarterHourMs }: DeltaGroup): Promise<Block[]> {
  const blocks = blocksOf(quarterHourMs);
  const { rows } = await db.query<Block>(
    `select b.minutes, ${epochMs('b.starts_at')} as "startMs", b.rollups, b.conversations
       from unnest($2::smallint[], $3::timestamptz[]) as wanted (minutes, starts_at)
       join message_sent_blocks b on b.tenant_id = $1 and b.minutes = wanted.minutes and b.starts_at = wanted.starts_at`,
    [
      tenantId,
      blocks.map(({ minutes }) => minutes),
      blocks.map(({ startMs }) => new Date(startMs).toISOString()),
    ],
  );
  return rows;
}

const COLUMNS: readonly Column<Block>[] = [
  { name: 'minutes', type: 'integer', value: ({ minutes }) => minutes },
  { name: 'starts_at', type: 'timestamptz', value: ({ startMs }) => startMs },
  { name: 'rollups', type: 'bytea', value: ({ rollups }) => rollups },
  { name: 'conversations', type: 'bytea', value: ({ conversations }) => conversations },
];

/** Stores or replaces blocks of a tenant. The caller is the only one who writes these rows. */
export async function writeBlocks(db: Queryable, tenantId: string, blocks: readonly Block[]): Promise<void> {
  await insertRows(
    withoutAnswer(db),
    'message_sent_blocks',
    [{ name: 'tenant_id', type: 'text', same: tenantId }, ...COLUMNS],
    blocks,
    `on conflict (tenant_id, minutes, starts_at) do update set
       rollups = excluded.rollups, conversations = excluded.conversations
     returning minutes`,
  );
}

const COUNTS = `array[${COUNT_COLUMNS.join(', ')}]::text[] as counts`;

/**
 * Deletes the rollups of a quarter-hour that workers of an earlier release wrote. Resolves with
 * their bytes; undefined: there were none.
 */
export async function takeEarlierRollups(
  db: Queryable,
  { tenantId, quarterHourMs }: DeltaGroup,
): Promise<Buffer | undefined> {
  const { rows } = await db.query<EarlierRollup>(
    `delete from message_sent_rollups where tenant_id = $1 and quarter_hour = $2
     returning augmentation_type as type, ${COUNTS},
               time_to_action as "timeToAction", crafting_time as "craftingTime", dwell_time as "dwellTime"`,
    [tenantId, new Date(quarterHourMs)],
  );
  if (rows.length === 0) return undefined;
  const sums = rows.map(
    ({ type, counts, timeToAction, craftingTime, dwellTime }): [string, TypeSums<Buffer>] => [
      type,
      { counts: counts.map(Number), times: [timeToAction, craftingTime, dwellTime] },
    ],
  );
  return encodeRollups(new Map(sums));
}

interface EarlierRollup {
  readonly type: string;
  readonly counts: readonly string[];
  readonly timeToAction: Buffer;
  readonly craftingTime: Buffer;
  readonly dwellTime: Buffer;
}

/** Deletes the conversations of a quarter-hour that workers of an earlier release wrote, and resolves with them. */
export async function takeEarlierConversations(
  db: Queryable,
  { tenantId, quarterHourMs }: DeltaGroup,
): Promise<ConversationSums[]> {
  const { rows } = await db.query<Omit<ConversationSums, 'counts'> & { readonly counts: readonly string[] }>(
    `delete from message_sent_conversations where tenant_id = $1 and quarter_hour = $2
     returning conversation_id as "conversationId", external_conversation_id as "externalConversationId", ${COUNTS}`,
    [tenantId, new Date(quarterHourMs)],
  );
  return rows.map((row) => ({ ...row, counts: row.counts.map(Number) }));
}
