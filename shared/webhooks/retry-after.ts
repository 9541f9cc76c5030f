/** An endpoint cannot have itself forgotten by one header. */
const PAUSE_MAX_MS = 24 * 60 * 60 * 1000;

/** Statuses whose Retry-After counts. */
const STATUSES = [429, 503];

/** Until when an answer asks to be left alone (RFC 9110, 10.2.3: seconds or a date), at most a day; else undefined. */
export function pausedUntilMs(status: number, header: string | undefined, nowMs: number): number | undefined {
  if (!STATUSES.includes(status) || header === undefined) return undefined;
  const text = header.trim();
  const untilMs = /^\d{1,10}$/.test(text) ? nowMs + Number(text) * 1000 : dateMs(text);
  if (untilMs === undefined || untilMs <= nowMs) return undefined;
  return Math.min(untilMs, nowMs + PAUSE_MAX_MS);
}

function dateMs(text: string): number | undefined {
  // Date.parse reads much that is no HTTP date; all forms of those begin with the name of a day.
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}
