import { BLOCK_MINUTES, blockStartMs } from '../../shared/message-sent/blocks.ts';
import { COUNT_COLUMNS } from '../../shared/message-sent/counts.ts';
import type { TypeSums } from '../../shared/message-sent/delta.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import type { DeltaGroup } from './message-sent-deltas.ts';

/** The counts of one augmentation type in a block of time; the times are encoded histograms. */
export interface BlockSums extends TypeSums<Buffer> {
  readonly minutes: number;
  readonly startMs: number;
  readonly type: string;
}

interface HistogramRow {
  readonly minutes: number;
  readonly startMs: number;
  readonly type: string;
  readonly timeToAction: Buffer;
  readonly craftingTime: Buffer;
  readonly dwellTime: Buffer;
}

/** Returns the blocks that contain a quarter-hour: its day, its hour and itself. */
export function blocksOf(quarterHourMs: number): { readonly minutes: number; readonly startMs: number }[] {
  return BLOCK_MINUTES.map((minutes) => ({ minutes, startMs: blockStartMs(minutes, quarterHourMs) }));
}

/** Resolves with the encoded histograms of the blocks that contain a quarter-hour, by {@link blockKey}. */
export async function readHistograms(
  db: Queryable,
  { tenantId, quarterHourMs }: DeltaGroup,
): Promise<Map<string, readonly Buffer[]>> {
  const blocks = blocksOf(quarterHourMs);
  const { rows } = await db.query<HistogramRow>(
    `select b.minutes, ${epochMs('b.starts_at')} as "startMs", b.augmentation_type as type,
            b.time_to_action as "timeToAction", b.crafting_time as "craftingTime", b.dwell_time as "dwellTime"
       from unnest($2::smallint[], $3::timestamptz[]) as wanted (minutes, starts_at)
       join message_sent_blocks b on b.tenant_id = $1 and b.minutes = wanted.minutes and b.starts_at = wanted.starts_at`,
    [
      tenantId,
      blocks.map(({ minutes }) => minutes),
      blocks.map(({ startMs }) => new Date(startMs).toISOString()),
    ],
  );
  return new Map(
    rows.map(({ timeToAction, craftingTime, dwellTime, ...block }) => [
      blockKey(block),
      [timeToAction, craftingTime, dwellTime],
    ]),
  );
}

/** Returns a text that differs for different rows of a tenant. */
export function blockKey({ minutes, type }: Pick<BlockSums, 'minutes' | 'type'>): string {
  return `${minutes} ${type}`;
}

/**
 * Adds counts to the rows of blocks, and replaces their histograms. The caller is the only one who
 * writes these rows.
 */
export async function addToBlocks(
  db: Queryable,
  tenantId: string,
  blocks: readonly BlockSums[],
): Promise<void> {
  const columns: Column<BlockSums>[] = [
    { name: 'tenant_id', type: 'text', same: tenantId },
    { name: 'minutes', type: 'integer', value: ({ minutes }) => minutes },
    { name: 'starts_at', type: 'timestamptz', value: ({ startMs }) => startMs },
    { name: 'augmentation_type', type: 'text', value: ({ type }) => type },
    ...countColumns<BlockSums>(),
    ...['time_to_action', 'crafting_time', 'dwell_time'].map(
      (name, i): Column<BlockSums> => ({ name, type: 'bytea', value: ({ times }) => times[i] }),
    ),
  ];
  await insertRows(
    db,
    'message_sent_blocks',
    columns,
    blocks,
    `on conflict (tenant_id, minutes, starts_at, augmentation_type) do update set
       ${addedCounts('message_sent_blocks')}, time_to_action = excluded.time_to_action,
       crafting_time = excluded.crafting_time, dwell_time = excluded.dwell_time
     returning augmentation_type`,
  );
}

/** The counts of a quarter-hour that an earlier release wrote. */
export interface EarlierRollup extends TypeSums<Buffer> {
  readonly type: string;
}

/** Deletes the counts of a quarter-hour that workers of an earlier release wrote. Resolves with them. */
export async function takeEarlierRollups(
  db: Queryable,
  { tenantId, quarterHourMs }: DeltaGroup,
): Promise<EarlierRollup[]> {
  const { rows } = await db.query<Omit<HistogramRow, 'minutes' | 'startMs'> & { counts: string[] }>(
    `delete from message_sent_rollups where tenant_id = $1 and quarter_hour = $2
     returning augmentation_type as type, array[${COUNT_COLUMNS.join(', ')}]::text[] as counts,
               time_to_action as "timeToAction", crafting_time as "craftingTime", dwell_time as "dwellTime"`,
    [tenantId, new Date(quarterHourMs)],
  );
  return rows.map(({ type, counts, timeToAction, craftingTime, dwellTime }) => ({
    type,
    counts: counts.map(Number),
    times: [timeToAction, craftingTime, dwellTime],
  }));
}

/** Returns the columns of the counts of rows that have them in the order of COUNT_NAMES. */
export function countColumns<Row extends { readonly counts: readonly number[] }>(): Column<Row>[] {
  return COUNT_COLUMNS.map((name, i) => ({ name, type: 'bigint', value: ({ counts }) => counts[i] }));
}

/** Returns assignments that add the counts of a conflicting row to those of the table. */
export function addedCounts(table: string): string {
  return COUNT_COLUMNS.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(', ');
}
