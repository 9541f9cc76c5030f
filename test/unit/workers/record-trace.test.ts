import { expect, test } from 'vitest';
import { encodeEvent } from '../../../shared/contracts/event.ts';
import { traceFieldsOfRecords } from '../../../workers/consume/record-trace.ts';

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const SPAN_ID = 'b7ad6b7169203331';
const TRACEPARENT = `00-${TRACE_ID}-${SPAN_ID}-01`;

function record(traceparent?: string, data = {}) {
  const kind = 'agent-metadata' as const;
  const of = { id: 'a', idGenerated: false, entity: 'e', acceptedAtMs: 0, requestId: 'r', contentHash: 'c' };
  return { value: encodeEvent({ kind, tenantId: 't', ...of, traceparent, data }) };
}

test('log lines name the trace of the first record that has one', () => {
  const records = [record(), { value: Buffer.alloc(0) }, record('no traceparent'), record(TRACEPARENT)];
  expect(traceFieldsOfRecords(records)).toEqual({ trace_id: TRACE_ID, span_id: SPAN_ID });
});

test('log lines name no trace from the data of a record', () => {
  const data = { a: 1, traceparent: TRACEPARENT };
  expect(record(undefined, data).value.includes(`,"traceparent":"${TRACEPARENT}"`)).toBe(true);
  expect(traceFieldsOfRecords([record(undefined, data)])).toEqual({});
});
