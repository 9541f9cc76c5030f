import type { TimeZone } from '../../shared/reports/time-zone.ts';

/** Returns the parts of a local time such as 2026-01-31, 08:30 and +05:30. */
export function localTime(zone: TimeZone, utc: string) {
  const timeMs = Date.parse(utc);
  const offsetMs = zone.offsetMs(timeMs);
  const [date, time] = new Date(timeMs + offsetMs).toISOString().slice(0, 16).split('T');
  const offset = new Date(Math.abs(offsetMs)).toISOString().slice(11, 16);
  return { date: date!, time: time!, offset: `${offsetMs < 0 ? '-' : '+'}${offset}` };
}

/** Returns the same time with the offset of the zone, such as 2026-01-31T08:30:00+05:30. */
export function withOffset(zone: TimeZone, utc: string): string {
  const { date, time, offset } = localTime(zone, utc);
  return `${date}T${time}:00${offset === '+00:00' ? 'Z' : offset}`;
}
