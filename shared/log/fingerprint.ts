import { hash } from 'node:crypto';
import type { LogRecord } from './log.ts';

/** Returns a hash that identifies the record which a log has at an offset. */
export function fingerprint(record: Pick<LogRecord, 'value'>): string {
  return hash('sha256', record.value).slice(0, 32);
}
