import { createHash } from 'node:crypto';
import type { LogRecord } from './log.ts';

/** Returns a hash that identifies the record which a log has at an offset. */
export function fingerprint(record: Pick<LogRecord, 'value'>): string {
  return createHash('sha256').update(record.value).digest('hex').slice(0, 32);
}
