import { QUARTER_HOUR_MS } from '../message-sent/counts.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** More than the offset of any time zone. */
const OFFSET_MAX_MS = 16 * HOUR_MS;

/** The local time of an IANA time zone. Offsets are those of the runtime's time zone database. */
export interface TimeZone {
  readonly name: string;
  /** Returns local time minus UTC in milliseconds. */
  offsetMs(timeMs: number): number;
}

/** Returns the time zone with this name, in any case; undefined if there is none. */
export function timeZoneOf(name: string): TimeZone | undefined {
  // Some runtimes accept offsets such as +01:00 too.
  if (!/^[A-Za-z]/.test(name)) return undefined;
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
  } catch {
    return undefined;
  }
  return { name, offsetMs: (timeMs) => parseOffset(format.format(timeMs)) };
}

/** Parses the end of a text such as `6/10/2026, GMT+05:30`. */
function parseOffset(text: string): number {
  const match = /GMT(?:([+-])(\d{2}):(\d{2})(?::(\d{2}))?)?$/.exec(text);
  const [hours, minutes, seconds] = [match?.[2], match?.[3], match?.[4]].map((digits) => Number(digits ?? 0));
  return (hours! * HOUR_MS + minutes! * 60_000 + seconds! * 1000) * (match?.[1] === '-' ? -1 : 1);
}

/** Returns the date at a time: `2026-01-31`. */
export function localDate(zone: TimeZone, timeMs: number): string {
  return new Date(timeMs + zone.offsetMs(timeMs)).toISOString().slice(0, 10);
}

/** Returns the first quarter-hour of a date, which is midnight unless the clocks skip it. */
export function startOfDate(zone: TimeZone, date: string): number {
  const utcMs = Date.parse(`${date}T00:00:00Z`);
  let [before, after] = [utcMs - OFFSET_MAX_MS, utcMs + OFFSET_MAX_MS];
  while (after - before > QUARTER_HOUR_MS) {
    const middle = before + Math.round((after - before) / 2 / QUARTER_HOUR_MS) * QUARTER_HOUR_MS;
    if (localDate(zone, middle) >= date) after = middle;
    else before = middle;
  }
  return after;
}

/** Part of a range in which the offset does not change. */
interface Part {
  readonly fromMs: number;
  readonly toMs: number;
  readonly offsetMs: number;
}

/**
 * Returns where the local days or hours of a range (at quarter-hours) begin, after its start. An
 * hour that the clocks repeat, or cut, begins twice, or when they are changed. Days have 23 to 25
 * hours then.
 */
export function localStarts(
  zone: TimeZone,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  unit: 'hour' | 'day',
): number[] {
  const unitMs = unit === 'hour' ? HOUR_MS : DAY_MS;
  const starts: number[] = [];
  for (const part of partsOf(zone, fromMs, toMs)) {
    const isChange = part.fromMs > fromMs;
    const isNewDay = localDate(zone, part.fromMs) !== localDate(zone, part.fromMs - 1);
    if (isChange && (unit === 'hour' || isNewDay)) starts.push(part.fromMs);
    let next = Math.ceil((part.fromMs + 1 + part.offsetMs) / unitMs) * unitMs - part.offsetMs;
    for (; next < part.toMs; next += unitMs) starts.push(next);
  }
  return starts;
}

/** Looks at each day, since no zone changes its offset twice within one. */
function* partsOf(zone: TimeZone, fromMs: number, toMs: number): Generator<Part> {
  let start = fromMs;
  let offsetMs = zone.offsetMs(fromMs);
  for (let at = fromMs; at < toMs; ) {
    const next = Math.min(at + DAY_MS, toMs);
    if (zone.offsetMs(next) !== offsetMs) {
      let [before, after] = [at, next];
      while (after - before > QUARTER_HOUR_MS) {
        const middle = before + Math.round((after - before) / 2 / QUARTER_HOUR_MS) * QUARTER_HOUR_MS;
        if (zone.offsetMs(middle) === offsetMs) before = middle;
        else after = middle;
      }
      yield { fromMs: start, toMs: after, offsetMs };
      [start, offsetMs] = [after, zone.offsetMs(after)];
    }
    at = next;
  }
  if (start < toMs) yield { fromMs: start, toMs, offsetMs };
}
