import type { Clock } from '../clock.ts';
import type { Queryable } from './pool.ts';

/**
 * Returns SQL that reads a timestamptz as whole milliseconds since the Unix epoch. The SQL's type
 * is numeric, which pools and clients parse as a number: see pool.ts. Statements never return a
 * timestamptz, because its text depends on DateStyle and TimeZone, which a database, role or pooler
 * may set. They never return a double precision, because extra_float_digits may round it.
 */
export function epochMs(expression: string): string {
  return `floor(extract(epoch from ${expression}) * 1000)`;
}

/**
 * Returns SQL as {@link epochMs} does, for RETURNING and for columns that are set: there, Citus
 * refuses functions that are not immutable. The time must be finite.
 */
export function immutableEpochMs(expression: string): string {
  return `floor(extract(epoch from ${expression} - timestamptz '1970-01-01T00:00:00Z') * 1000)`;
}

/** Returns the parameter for a timestamptz. */
export function toDate(timeMs: number | null | undefined): Date | null {
  return timeMs === null || timeMs === undefined ? null : new Date(timeMs);
}

/** Returns a time as text that Postgres reads as a timestamptz, such as `2026-01-31T08:30:00.000Z`. */
export function isoTime(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** Returns whether a time that a caller sent can be a parameter for a timestamptz: until the year 9999. */
export function isStorableTime(timeMs: number): boolean {
  return timeMs >= 0 && timeMs < Date.UTC(9999, 0, 1);
}

/** Returns the UTC day of a time, as a parameter for a date: `2026-01-31`. */
export function dayOf(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 10);
}

/**
 * Returns the time of this process or of the database, whichever is earlier, in milliseconds since
 * the Unix epoch. Used to delete expired rows, because one clock that is ahead must not delete rows
 * too early.
 */
export async function earlierNow(db: Queryable, clock: Clock): Promise<number> {
  const { rows } = await db.query<{ nowMs: number }>(`select ${epochMs('clock_timestamp()')} as "nowMs"`);
  return Math.min(rows[0]!.nowMs, clock.nowMs());
}
