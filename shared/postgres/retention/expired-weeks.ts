import type { Retained, RetentionDays } from '../../config/retention.ts';
import type { Queryable } from '../pool.ts';
import type { TimePartitionedTable } from '../time-partitions.ts';
import { weekOfPartition } from '../time-partitions.ts';

const DAY_MS = 86_400_000;
/**
 * Days for which a week is kept in addition, because the clocks of workers differ. A record that is
 * too old for its kind becomes a dead letter, so no worker needs a week that is dropped.
 */
const MARGIN_DAYS = 1;

const TABLES: Readonly<Record<Exclude<Retained, 'credentials'>, readonly TimePartitionedTable[]>> = {
  agents: ['agent_records'],
  conversations: ['conversation_records'],
  messages: ['message_sent'],
  events: ['automation_events'],
  // A body that is still needed is copied before the week of its message is dropped.
  webhooks: ['webhook_messages', 'webhook_deliveries', 'webhook_attempts'],
  audit: ['credential_reads'],
};

/** A week of a table that is past its retention. */
export interface ExpiredWeek {
  readonly table: TimePartitionedTable;
  /** Name of the week's own table. */
  readonly partition: string;
  readonly fromMs: number;
  readonly toMs: number;
  /** Including its indexes. */
  readonly bytes: number;
  /** Where an interrupted run left it; detached weeks are no longer part of the table. */
  readonly state: 'attached' | 'detaching' | 'detached';
}

/** Returns the time before which rows are past their retention; undefined: they are kept for ever. */
export function cutoffMs(retention: RetentionDays, retained: Retained, nowMs: number): number | undefined {
  const days = retention[retained];
  return days === undefined ? undefined : nowMs - (days + MARGIN_DAYS) * DAY_MS;
}

/** Resolves with the weeks that are past their retention, by table, oldest first. */
export async function findExpiredWeeks(
  db: Queryable,
  retention: RetentionDays,
  nowMs: number,
): Promise<ExpiredWeek[]> {
  const expired: ExpiredWeek[] = [];
  for (const [retained, tables] of Object.entries(TABLES)) {
    const beforeMs = cutoffMs(retention, retained as keyof typeof TABLES, nowMs);
    if (beforeMs === undefined) continue;
    for (const table of tables) {
      const weeks = await listWeeks(db, table);
      expired.push(...weeks.filter(({ toMs }) => toMs <= beforeMs));
    }
  }
  return expired;
}

async function listWeeks(db: Queryable, table: TimePartitionedTable): Promise<ExpiredWeek[]> {
  const { rows } = await db.query<
    Omit<ExpiredWeek, 'table' | 'fromMs' | 'toMs' | 'bytes'> & { bytes: bigint }
  >(
    `select c.relname as partition, pg_total_relation_size(c.oid) as bytes,
            case when i.inhparent is null then 'detached' when i.inhdetachpending then 'detaching' else 'attached' end as state
       from pg_class c
       left join pg_inherits i on i.inhrelid = c.oid
      where c.relkind = 'r' and c.relname ~ ('^' || $1::text || '_p\\d{8}$')
        and c.relnamespace = (select relnamespace from pg_class where oid = $1::text::regclass)
      order by c.relname`,
    [table],
  );
  return rows.flatMap(({ bytes, ...row }) => {
    const week = weekOfPartition(row.partition);
    return week ? [{ table, ...row, ...week, bytes: Number(bytes) }] : [];
  });
}
