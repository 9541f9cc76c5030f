import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startTracing, stopTracing } from '../../../shared/tracing/tracer.ts';
import type { Candidate } from '../../../workers/consume/decode.ts';
import type { DeadLetter } from '../../../workers/consume/deduplicate.ts';
import { traceBatch, traceparentOfFailure } from '../../../workers/consume/trace-batch.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../../support/otlp-receiver.ts';

const TOPIC = 'sluice.agent-metadata';

let receiver: OtlpReceiver;
beforeEach(async () => {
  receiver = await startOtlpReceiver();
  for (const [name, value] of Object.entries(receiver.env)) vi.stubEnv(name, value);
  const logger = pino({ level: 'silent' });
  await startTracing(process.env, { service: 'worker', messagingSystem: 'kafka', logger });
});
afterEach(async () => {
  await stopTracing();
  vi.unstubAllEnvs();
  await receiver.close();
});

const traceIdOf = (index: number) => String(index + 1).padStart(32, '0');

/** Returns a record that was read at this offset, with a traceparent of these flags. */
function candidate(index: number, flags: string): Candidate<unknown> {
  const traceparent = flags && `00-${traceIdOf(index)}-b7ad6b7169203331-${flags}`;
  const identity = { tenantId: 't', id: `id-${index}`, idGenerated: false, acceptedAtMs: 0, traceparent };
  return { log: { offset: BigInt(index) }, identity } as unknown as Candidate<unknown>;
}

const sliceOf = (candidates: readonly Candidate<unknown>[]) => ({ topic: TOPIC, partition: 3, candidates });

/** Stores the records of one partition; some become dead letters. */
async function store(candidates: readonly Candidate<unknown>[], rejected: Candidate<unknown>[] = []) {
  const slice = sliceOf(candidates);
  const rejection = { reason: 'invalid', stage: 'check', text: 'a member is missing' } as const;
  const deadLetters: DeadLetter<unknown>[] = rejected.map((one) => ({ candidate: one, rejection }));
  await traceBatch(
    [slice],
    async () => undefined,
    () => new Map([[slice, { deadLetters }]]),
  );
  await stopTracing();
  return {
    batches: receiver.spans.filter(({ name }) => name === `store ${TOPIC}`),
    records: receiver.spans.filter(({ name }) => name === `process ${TOPIC}`),
  };
}

test('a batch has links to its traced records, each of which has a span in its own trace', async () => {
  const candidates = [candidate(0, '01'), candidate(1, '00'), candidate(2, ''), candidate(3, '01')];
  const { batches, records } = await store(candidates, [candidates[3]!]);
  expect(batches).toMatchObject([
    {
      kind: 5,
      parentSpanId: undefined,
      attributes: { 'messaging.batch.message_count': 4, 'messaging.destination.name': TOPIC },
      links: [{ traceId: traceIdOf(0) }, { traceId: traceIdOf(3) }],
    },
  ]);
  const { traceId, spanId } = batches[0]!;
  expect(records).toMatchObject([
    {
      traceId: traceIdOf(0),
      parentSpanId: 'b7ad6b7169203331',
      failed: false,
      links: [{ traceId, spanId }],
      attributes: {
        'messaging.message.id': 'id-0',
        'messaging.destination.partition.id': '3',
        'messaging.kafka.offset': 0,
        'sluice.tenant.id': 't',
      },
    },
    { traceId: traceIdOf(3), failed: true, attributes: { 'error.type': 'invalid' } },
  ]);
});

test('a batch of 1000 traced records has 128 links and spans of records', async () => {
  const { batches, records } = await store(Array.from({ length: 1000 }, (_, i) => candidate(i, '01')));
  expect(batches.map(({ links }) => links.length)).toEqual([128]);
  expect(records).toHaveLength(128);
});

test('a batch without traced records has no span', async () => {
  expect(await store([candidate(0, '00'), candidate(1, ''), candidate(2, 'xx')])).toEqual({
    batches: [],
    records: [],
  });
});

test('a batch that fails has the fault, and its error the context for log lines', async () => {
  const error = Object.assign(new Error('value s3cret'), { code: '22P02', severity: 'ERROR' });
  const failing = async () => {
    throw error;
  };
  const slice = sliceOf([candidate(0, '01')]);
  await expect(traceBatch([slice], failing, () => new Map())).rejects.toBe(error);
  await stopTracing();
  expect(receiver.spans).toMatchObject([{ failed: true, attributes: { 'error.type': 'record' } }]);
  expect(traceparentOfFailure(error)).toContain(receiver.spans[0]!.spanId);
  expect(String(receiver.bodies)).not.toContain('s3cret');
});
