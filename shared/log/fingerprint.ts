import { createHash } from 'node:crypto';
import type { LogRecord } from './log.ts';

/** Tells a record from any other that a log may have at its offset. */
export function fingerprint(record: Pick<LogRecord, 'value'>): string {
  return createHash('sha256').update(record.value).digest('hex').slice(0, 32);
}
