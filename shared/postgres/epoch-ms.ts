/**
 * Returns SQL that reads a timestamptz as whole milliseconds since the Unix epoch, as int8.
 * Statements never return a timestamptz itself: its text depends on DateStyle and TimeZone, which a
 * database, a role or a pooler may set.
 */
export function epochMs(expression: string): string {
  return `floor(extract(epoch from ${expression}) * 1000)::bigint`;
}

/**
 * Converts the int8 of {@link epochMs} to a number. A client without the pool's type parsers
 * returns it as text.
 */
export function toMs(value: bigint | string): number {
  return Number(value);
}

/** As {@link toMs}, for a column that may be null. */
export function toMsOrNull(value: bigint | string | null): number | null {
  return value === null ? null : Number(value);
}
