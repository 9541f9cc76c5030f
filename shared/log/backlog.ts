import type { Backlog, LogRecord } from './log.ts';

/**
 * Returns what is known of the records of a partition from an offset on. `read` are records that were
 * read but not handled, in order. `unreadFromMs` estimates when the log accepted the first record
 * after those: at the time of the last record that was handled, or when the record was found.
 */
export function backlogFrom(
  from: bigint,
  end: bigint,
  read: readonly (readonly LogRecord[])[],
  unreadFromMs: number,
): Backlog {
  if (end <= from) return { records: 0n, oldestMs: undefined };
  let first: LogRecord | undefined;
  for (const records of read) first ??= records.find(({ offset }) => offset >= from);
  return { records: end - from, oldestMs: first?.timestampMs ?? unreadFromMs };
}
