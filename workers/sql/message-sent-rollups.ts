import { COUNT_COLUMNS } from '../../shared/message-sent/counts.ts';
import type { TypeSums } from '../../shared/message-sent/delta.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { DeltaGroup } from './message-sent-deltas.ts';

/** The counts to add to one type's row; the times are encoded histograms. */
export interface RollupSums extends TypeSums<Buffer> {
  readonly type: string;
}

/** Resolves with the encoded histograms of a quarter-hour, by type. */
export async function readHistograms(
  db: Queryable,
  { tenantId, quarterHourMs }: DeltaGroup,
): Promise<Map<string, readonly Buffer[]>> {
  const { rows } = await db.query<{
    type: string;
    timeToAction: Buffer;
    craftingTime: Buffer;
    dwellTime: Buffer;
  }>(
    `select augmentation_type as type, time_to_action as "timeToAction", crafting_time as "craftingTime",
            dwell_time as "dwellTime"
       from message_sent_rollups where tenant_id = $1 and quarter_hour = $2`,
    [tenantId, new Date(quarterHourMs)],
  );
  return new Map(
    rows.map(({ type, timeToAction, craftingTime, dwellTime }) => [
      type,
      [timeToAction, craftingTime, dwellTime],
    ]),
  );
}

/**
 * Adds counts to the rows of a quarter-hour, and replaces their histograms. The caller is the only
 * one who writes these rows.
 */
export async function addToRollups(
  db: Queryable,
  group: DeltaGroup,
  rollups: readonly RollupSums[],
): Promise<void> {
  const columns: Column<RollupSums>[] = [
    { name: 'tenant_id', type: 'text', same: group.tenantId },
    { name: 'quarter_hour', type: 'timestamptz', same: group.quarterHourMs },
    { name: 'augmentation_type', type: 'text', value: ({ type }) => type },
    ...countColumns<RollupSums>(),
    ...['time_to_action', 'crafting_time', 'dwell_time'].map(
      (name, i): Column<RollupSums> => ({ name, type: 'bytea', value: ({ times }) => times[i] }),
    ),
  ];
  await insertRows(
    db,
    'message_sent_rollups',
    columns,
    rollups,
    `on conflict (tenant_id, quarter_hour, augmentation_type) do update set
       ${addedCounts('message_sent_rollups')}, time_to_action = excluded.time_to_action,
       crafting_time = excluded.crafting_time, dwell_time = excluded.dwell_time
     returning augmentation_type`,
  );
}

/** Returns the columns of the counts of rows that have them in the order of COUNT_NAMES. */
export function countColumns<Row extends { readonly counts: readonly number[] }>(): Column<Row>[] {
  return COUNT_COLUMNS.map((name, i) => ({ name, type: 'bigint', value: ({ counts }) => counts[i] }));
}

/** Returns assignments that add the counts of a conflicting row to those of the table. */
export function addedCounts(table: string): string {
  return COUNT_COLUMNS.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(', ');
}
