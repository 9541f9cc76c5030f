import { isSampled, validTraceparent } from '../../shared/contracts/traceparent.ts';
import type { Span, Tracer } from '../../shared/tracing/span.ts';
import { tracer } from '../../shared/tracing/tracer.ts';
import type { Candidate } from './decode.ts';
import type { DeadLetter } from './deduplicate.ts';
import { classifyFault } from './faults.ts';

/** Records of a batch that get a link and a span, at most: a batch may have thousands. */
const RECORDS_MAX = 128;

interface TracedSlice<Row> {
  readonly topic: string;
  readonly partition: number;
  readonly candidates: readonly Candidate<Row>[];
}

/** The dead letters of the slices that were stored. */
type Results<Row> = ReadonlyMap<TracedSlice<Row>, { readonly deadLetters: readonly DeadLetter<Row>[] }>;

/** A record whose trace is recorded. */
interface TracedRecord<Row> {
  readonly slice: TracedSlice<Row>;
  readonly candidate: Candidate<Row>;
  readonly traceparent: string;
}

/** The traceparents of the spans of batches that failed, by error. */
const failed = new WeakMap<object, string>();

/**
 * Stores slices of a topic. If records in them are traced, the batch is a span with links to them, in
 * a trace of its own, and each of the records that was stored gets a span in its own trace.
 */
export async function traceBatch<Row, T>(
  slices: readonly TracedSlice<Row>[],
  store: () => Promise<T>,
  resultsOf: (result: T) => Results<Row>,
): Promise<T> {
  const records = tracer ? tracedRecords(slices) : [];
  if (!tracer || records.length === 0) return await store();
  const { topic } = slices[0]!;
  const startedAtMs = performance.timeOrigin + performance.now();
  const links = records.map(({ traceparent }) => traceparent);
  const span = tracer.startSpan(`store ${topic}`, { kind: 'consumer', links });
  span?.set({
    ...messagingAttributes(tracer, topic),
    'messaging.operation.name': 'store',
    'messaging.batch.message_count': slices.reduce((sum, { candidates }) => sum + candidates.length, 0),
  });
  try {
    const result = await store();
    const results = resultsOf(result);
    const stored = records.filter(({ slice }) => results.has(slice));
    for (const record of stored) endRecord(record, { startedAtMs, batch: span, results });
    return result;
  } catch (error) {
    const { kind, text } = classifyFault(error);
    span?.fail(kind, text);
    if (span && typeof error === 'object' && error !== null) failed.set(error, span.traceparent);
    throw error;
  } finally {
    span?.end();
  }
}

/** Returns the traceparent of the batch's span that failed with this error. */
export function traceparentOfFailure(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null ? failed.get(error) : undefined;
}

function tracedRecords<Row>(slices: readonly TracedSlice<Row>[]): TracedRecord<Row>[] {
  const records: TracedRecord<Row>[] = [];
  for (const slice of slices) {
    for (const candidate of slice.candidates) {
      const traceparent = validTraceparent(candidate.identity?.traceparent);
      if (traceparent === undefined || !isSampled(traceparent)) continue;
      records.push({ slice, candidate, traceparent });
      if (records.length === RECORDS_MAX) return records;
    }
  }
  return records;
}

interface EndedBatch<Row> {
  readonly startedAtMs: number;
  readonly batch: Span | undefined;
  readonly results: Results<Row>;
}

/** Records the span of a record, which lasted as long as its batch. */
function endRecord<Row>(
  { slice, candidate, traceparent }: TracedRecord<Row>,
  { startedAtMs, batch, results }: EndedBatch<Row>,
): void {
  const span = tracer?.startSpan(`process ${slice.topic}`, {
    kind: 'consumer',
    parent: traceparent,
    startedAtMs,
    ...(batch && { links: [batch.traceparent] }),
  });
  if (!tracer || !span) return;
  const { identity, log } = candidate;
  span.set({
    ...messagingAttributes(tracer, slice.topic),
    'messaging.operation.name': 'process',
    'messaging.message.id': identity?.id,
    'messaging.destination.partition.id': String(slice.partition),
    [`messaging.${tracer.messagingSystem}.offset`]: Number(log.offset),
    'sluice.tenant.id': identity?.tenantId,
  });
  const deadLetter = results.get(slice)?.deadLetters.find((one) => one.candidate === candidate);
  if (deadLetter) span.fail(deadLetter.rejection.reason, deadLetter.rejection.text);
  span.end();
}

function messagingAttributes({ messagingSystem }: Tracer, topic: string) {
  return {
    'messaging.system': messagingSystem,
    'messaging.destination.name': topic,
    'messaging.operation.type': 'process',
    'messaging.consumer.group.name': topic,
  };
}
