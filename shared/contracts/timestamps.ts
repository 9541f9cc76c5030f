const RFC3339 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d{2}):(\d{2}))$/;

/**
 * A pattern for JSON Schema, in addition to its format `date-time`: the accepted years, and at most
 * nine fraction digits. The pattern cannot reject leap seconds and days that a month does not have.
 */
export const TIMESTAMP_PATTERN =
  '^(?:167[89]|16[89][0-9]|1[7-9][0-9]{2}|2[01][0-9]{2}|22[0-5][0-9]|226[01])-[0-9]{2}-[0-9]{2}[Tt]' +
  '[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$';

/** Years whose nanoseconds fit into an int64, with any offset. */
const YEAR_MIN = 1678;
const YEAR_MAX = 2261;

/**
 * Returns the nanoseconds since the Unix epoch of an RFC 3339 timestamp with offset and up to nine
 * fraction digits. Returns undefined for other texts, dates that do not exist (including leap
 * seconds), and years before 1678 or after 2261.
 */
export function parseTimestampNs(text: string): bigint | undefined {
  const match = RFC3339.exec(text);
  if (!match) return undefined;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  if (year < YEAR_MIN || year > YEAR_MAX) return undefined;
  if (hour > 23 || minute > 59 || second > 59) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  const [offsetHours, offsetMinutes] = [Number(match[10] ?? 0), Number(match[11] ?? 0)];
  if (offsetHours > 23 || offsetMinutes > 59) return undefined;
  const offsetMs = (offsetHours * 60 + offsetMinutes) * 60_000 * (match[9] === '-' ? -1 : 1);
  return BigInt(date.getTime() - offsetMs) * 1_000_000n + BigInt((match[7] ?? '').padEnd(9, '0'));
}
