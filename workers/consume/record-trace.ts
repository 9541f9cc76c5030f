import { traceFields } from '../../shared/contracts/traceparent.ts';
import type { LogRecord } from '../../shared/log/log.ts';

/** Records that are searched at most: a batch may have thousands. */
const RECORDS_MAX = 128;
const TRACEPARENT = ',"traceparent":"';
const TRACEPARENT_BYTES = 55;
const DATA = ',"data":';

/**
 * Returns the members of log lines that name the trace of the first of these records that has one.
 * Finds it in the bytes of the records, because a batch may fail before they are decoded.
 */
export function traceFieldsOfRecords(
  records: readonly Pick<LogRecord, 'value'>[],
): ReturnType<typeof traceFields> {
  let searched = 0;
  for (const { value } of records) {
    if (++searched > RECORDS_MAX) break;
    const at = value.indexOf(TRACEPARENT);
    // The data of a record may have a member of this name.
    if (at < 0 || at > value.indexOf(DATA)) continue;
    const start = at + TRACEPARENT.length;
    const fields = traceFields(value.toString('latin1', start, start + TRACEPARENT_BYTES));
    if (fields.trace_id !== undefined) return fields;
  }
  return {};
}
