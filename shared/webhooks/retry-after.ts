/** The longest pause, in milliseconds, that an endpoint can request. */
const PAUSE_MAX_MS = 24 * 60 * 60 * 1000;

/** Statuses with which a Retry-After header is respected. */
const STATUSES = [429, 503];

/**
 * Returns when the pause that a response requests ends, at most a day later; undefined without one.
 * Retry-After is in seconds or a date (RFC 9110, 10.2.3).
 */
export function pausedUntilMs(status: number, header: string | undefined, nowMs: number): number | undefined {
  if (!STATUSES.includes(status) || header === undefined) return undefined;
  const text = header.trim();
  const untilMs = /^\d{1,10}$/.test(text) ? nowMs + Number(text) * 1000 : dateMs(text);
  if (untilMs === undefined || untilMs <= nowMs) return undefined;
  return Math.min(untilMs, nowMs + PAUSE_MAX_MS);
}

function dateMs(text: string): number | undefined {
  // Date.parse accepts more than HTTP dates, which all start with the name of a day.
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}
