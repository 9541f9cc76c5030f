import { inTransaction, type Pool, type Queryable } from './pool.ts';
import { isoTime } from './times.ts';

const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;
/** 1970-01-05, the first Monday of the epoch. */
const FIRST_MONDAY_MS = 4 * DAY_MS;
/** Key of the advisory lock that serializes the creation of partitions; an arbitrary number. */
const PARTITIONS_LOCK = 7_305_411_902;

/** The append-only tables that are partitioned by week. */
export const TIME_PARTITIONED_TABLES = [
  'agent_records',
  'conversation_records',
  'message_sent',
  'automation_events',
  'webhook_messages',
  'webhook_deliveries',
  'webhook_attempts',
  'credential_reads',
] as const;

export type TimePartitionedTable = (typeof TIME_PARTITIONED_TABLES)[number];

export function isTimePartitioned(table: string): table is TimePartitionedTable {
  return (TIME_PARTITIONED_TABLES as readonly string[]).includes(table);
}

/**
 * Creates missing weekly partitions of the table for all times from `fromMs` to `toMs`
 * (milliseconds, both inclusive), and resolves with their names. Does not block inserts: a new
 * table is attached, which locks the parent only against other attaches. Any number of processes
 * may do it concurrently.
 */
export async function ensureTimePartitions(
  pool: Pool,
  table: TimePartitionedTable,
  fromMs: number,
  toMs: number,
): Promise<string[]> {
  const weeks: number[] = [];
  for (let week = weekStartMs(fromMs); week <= toMs; week += WEEK_MS) weeks.push(week);
  const missing = await missingPartitions(pool, table, weeks);
  if (missing.length === 0) return [];
  return inTransaction(pool, async (client) => {
    await client.query('select pg_advisory_xact_lock($1)', [PARTITIONS_LOCK]);
    // Another process may have created partitions while this one waited for the lock.
    const still = await missingPartitions(client, table, weeks);
    for (const week of still) {
      const name = timePartitionName(table, week);
      const bounds = `from ('${isoTime(week)}') to ('${isoTime(week + WEEK_MS)}')`;
      await client.query(
        `create table ${name} (like ${table} including defaults including constraints including indexes)`,
      );
      await client.query(`alter table ${table} attach partition ${name} for values ${bounds}`);
    }
    return still.map((week) => timePartitionName(table, week));
  });
}

/** Returns `<table>_pYYYYMMDD`, with the Monday (UTC) of the week. */
export function timePartitionName(table: TimePartitionedTable, timeMs: number): string {
  return `${table}_p${isoTime(weekStartMs(timeMs)).slice(0, 10).replaceAll('-', '')}`;
}

/** A week of a table: from `fromMs` (inclusive) to `toMs` (exclusive). */
export interface Week {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Returns the weeks for which the table has a partition, newest first. */
export async function listTimePartitions(db: Queryable, table: TimePartitionedTable): Promise<Week[]> {
  const { rows } = await db.query<{ name: string }>(
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = $1::regclass`,
    [table],
  );
  return rows.flatMap(({ name }) => weekOfPartition(name) ?? []).sort((a, b) => b.fromMs - a.fromMs);
}

/** Returns the week of a partition by its name; undefined for other names. */
export function weekOfPartition(name: string): Week | undefined {
  const match = /_p(\d{4})(\d{2})(\d{2})$/.exec(name);
  if (!match) return undefined;
  const fromMs = Date.UTC(Number(match[1]), Number(match[2]) - 1, Number(match[3]));
  return { fromMs, toMs: fromMs + WEEK_MS };
}

function weekStartMs(timeMs: number): number {
  return Math.floor((timeMs - FIRST_MONDAY_MS) / WEEK_MS) * WEEK_MS + FIRST_MONDAY_MS;
}

async function missingPartitions(
  db: Pick<Pool, 'query'>,
  table: TimePartitionedTable,
  weeks: readonly number[],
): Promise<number[]> {
  // Not to_regclass: a session's cache may miss a table that another process has created.
  const { rows } = await db.query<{ name: string }>(
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = $1::regclass and c.relname = any ($2::text[])`,
    [table, weeks.map((week) => timePartitionName(table, week))],
  );
  const there = new Set(rows.map((row) => row.name));
  return weeks.filter((week) => !there.has(timePartitionName(table, week)));
}
