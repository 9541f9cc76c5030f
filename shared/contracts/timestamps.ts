import { COLON, DOT, digitsEnd, isDigit, MINUS, PLUS, ZERO } from './json-bytes.ts';

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
const NS_PER_SECOND = 1_000_000_000n;

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

/**
 * Returns nanoseconds since the Unix epoch as an RFC 3339 timestamp in UTC, without trailing zeros of
 * its fraction.
 */
export function writeTimestampNs(ns: bigint): string {
  const fraction = ((ns % NS_PER_SECOND) + NS_PER_SECOND) % NS_PER_SECOND;
  const seconds = new Date(Number((ns - fraction) / 1_000_000n)).toISOString().slice(0, SECONDS_END);
  const digits = String(fraction).padStart(FRACTION_DIGITS_MAX, '0').replace(/0+$/, '');
  return `${seconds}${digits === '' ? '' : `.${digits}`}Z`;
}

const UPPER_T = 'T'.charCodeAt(0);
const UPPER_Z = 'Z'.charCodeAt(0);
const TO_LOWER = 0x20;
const SECONDS_END = '2026-01-31T00:00:00'.length;
const OFFSET_BYTES = '+00:00'.length;
const FRACTION_DIGITS_MAX = 9;
const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/**
 * Returns whether {@link parseTimestampNs} accepts the text of these bytes. Takes a tenth of the
 * time.
 */
export function isTimestamp(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start <= SECONDS_END || !isDateAndTime(bytes, start)) return false;
  let at = start + SECONDS_END;
  if (bytes[at] === DOT) {
    const fractionEnd = digitsEnd(bytes, at + 1, end);
    const digits = fractionEnd - at - 1;
    if (digits === 0 || digits > FRACTION_DIGITS_MAX) return false;
    at = fractionEnd;
  }
  const sign = at < end ? bytes[at]! : 0;
  if (isLetter(sign, UPPER_Z)) return at + 1 === end;
  if ((sign !== PLUS && sign !== MINUS) || at + OFFSET_BYTES !== end || bytes[at + 3] !== COLON) return false;
  return twoDigits(bytes, at + 1) <= 23 && twoDigits(bytes, at + 4) <= 59;
}

function isDateAndTime(bytes: Uint8Array, start: number): boolean {
  const year = 100 * twoDigits(bytes, start) + twoDigits(bytes, start + 2);
  const month = twoDigits(bytes, start + 5);
  const day = twoDigits(bytes, start + 8);
  return (
    year >= YEAR_MIN &&
    year <= YEAR_MAX &&
    bytes[start + 4] === MINUS &&
    month >= 1 &&
    month <= 12 &&
    bytes[start + 7] === MINUS &&
    day >= 1 &&
    day <= daysOf(month, year) &&
    isLetter(bytes[start + 10]!, UPPER_T) &&
    twoDigits(bytes, start + 11) <= 23 &&
    bytes[start + 13] === COLON &&
    twoDigits(bytes, start + 14) <= 59 &&
    bytes[start + 16] === COLON &&
    twoDigits(bytes, start + 17) <= 59
  );
}

function daysOf(month: number, year: number): number {
  const isLeapYear = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return MONTH_DAYS[month - 1]! + (month === 2 && isLeapYear ? 1 : 0);
}

function isLetter(byte: number, upperCase: number): boolean {
  return byte === upperCase || byte === (upperCase | TO_LOWER);
}

/** Returns the number that two digits represent; NaN if they are no digits. */
function twoDigits(bytes: Uint8Array, at: number): number {
  const [tens, ones] = [bytes[at]!, bytes[at + 1]!];
  return isDigit(tens) && isDigit(ones) ? 10 * (tens - ZERO) + ones - ZERO : Number.NaN;
}
