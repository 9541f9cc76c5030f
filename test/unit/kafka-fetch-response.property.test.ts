import { createRequire } from 'node:module';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { toLogRecord } from '../../shared/log/kafka/log-record.ts';
import { decodeFetchResponse, FetchedRecord } from '../../shared/log/kafka/protocol/fetch-response.ts';
import { recordBytes, writeBatch } from '../../shared/log/kafka/protocol/record-batch.ts';
import type { OutgoingRecord } from '../../shared/log/log.ts';

// kafkajs has no types for this module. It is not patched here.
const require = createRequire(import.meta.url);
const kafkajs = require('kafkajs/src/protocol/requests/fetch/v11/response');

const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));
const name = fc
  .string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 20 })
  .filter((text) => !/^\d+$/.test(text));
const record = fc.record({
  partition: fc.constant(0),
  key: bytes,
  value: bytes,
  headers: fc.oneof(
    fc.constant({ 'content-type': 'application/json' }),
    fc.uniqueArray(fc.record({ name, value: fc.option(bytes) }), {
      selector: (header) => header.name,
      maxLength: 3,
    }),
  ),
});
const batch = fc.record({
  records: fc.array(record, { minLength: 1, maxLength: 20 }),
  firstOffset: fc.bigInt({ min: 0n, max: 2n ** 62n }),
  nowMs: fc.integer({ min: 0, max: 2 ** 42 }),
  /** 0x8: the broker sets the times. */
  attributes: fc.constantFrom<number[]>(0, 8),
});
type Batch = typeof batch extends fc.Arbitrary<infer T> ? T : never;
const partition = fc.record({
  partition: fc.nat(),
  errorCode: fc.nat(3),
  batches: fc.array(batch, { maxLength: 3 }),
  /** Bytes of the last batch that the broker cuts off. */
  cutBytes: fc.oneof(fc.constant(0), fc.nat(200)),
});
const response = fc.array(
  fc.record({ topicName: fc.string({ minLength: 1 }), partitions: fc.array(partition, { maxLength: 3 }) }),
  { maxLength: 2 },
);

function encodeBatch({ records, firstOffset, nowMs, attributes }: Batch): Buffer {
  const target = Buffer.alloc(records.reduce((sum, one) => sum + recordBytes(one as OutgoingRecord), 61));
  const end = writeBatch(target, 0, records as OutgoingRecord[], nowMs);
  target.writeBigInt64BE(firstOffset, 0);
  target.writeInt16BE(attributes, 21);
  target.writeBigInt64BE(BigInt(nowMs) + 5n, 35);
  return target.subarray(0, end);
}

/** kafkajs throws for fewer bytes of a batch. */
const KAFKAJS_BYTES_MIN = 17;

const int16 = (value: number) => Buffer.from([value >> 8, value]);
const int32 = (value: number) => Buffer.from([value >> 24, value >> 16, value >> 8, value]);
const list = (items: readonly Buffer[]) => Buffer.concat([int32(items.length), ...items]);

function encodeResponse(topics: typeof response extends fc.Arbitrary<infer T> ? T : never): Buffer {
  const encodedTopics = topics.map(({ topicName, partitions }) => {
    const encoded = partitions.map(({ partition: number, errorCode, batches, cutBytes }) => {
      const all = Buffer.concat(batches.map(encodeBatch));
      const keptBytes = all.length - cutBytes;
      const records = all.subarray(0, keptBytes < KAFKAJS_BYTES_MIN ? 0 : keptBytes);
      const offsets = Buffer.alloc(24, 1);
      return Buffer.concat([
        ...[int32(number), int16(errorCode), offsets, int32(-1), int32(-1), int32(records.length), records],
      ]);
    });
    const text = Buffer.from(topicName);
    return Buffer.concat([int16(text.length), text, list(encoded)]);
  });
  return Buffer.concat([int32(7), int16(0), int32(9), list(encodedTopics)]);
}

const withLogRecords = (decoded: {
  readonly responses: readonly { readonly partitions: readonly { readonly messages: readonly never[] }[] }[];
}) => ({
  ...decoded,
  responses: decoded.responses.map((topic) => ({
    ...topic,
    partitions: topic.partitions.map((one) => ({
      ...one,
      messages: one.messages.map(toLogRecord).map(({ offset, key, value, headers, timestampMs }) => ({
        offset,
        key,
        value,
        headers,
        timestampMs,
      })),
    })),
  })),
});

it('a response to a fetch is decoded as by kafkajs', async () => {
  await fc.assert(
    fc.asyncProperty(response, async (topics) => {
      const raw = encodeResponse(topics);
      const decoded = decodeFetchResponse(raw)!;
      expect(decoded).toBeDefined();
      for (const { messages } of decoded.responses.flatMap(({ partitions }) => partitions)) {
        expect(messages.every((message) => message instanceof FetchedRecord)).toBe(true);
      }
      expect(withLogRecords(decoded as never)).toEqual(withLogRecords(await kafkajs.decode(raw)));
    }),
    { numRuns: 300 },
  );
});

const example: Batch = {
  records: [{ partition: 0, key: Buffer.from('k'), value: Buffer.from('v'), headers: [] }],
  firstOffset: 5n,
  nowMs: 1,
  attributes: 0,
};

it.each([
  ['compressed', 1],
  ['control', 0x20],
])('a response with a %s batch is left to kafkajs', (_, attributes) => {
  const partitions = [{ partition: 0, errorCode: 0, batches: [{ ...example, attributes }], cutBytes: 0 }];
  expect(decodeFetchResponse(encodeResponse([{ topicName: 't', partitions }]))).toBeUndefined();
});

it('a damaged response is left to kafkajs, or has only records within it', () => {
  const partitions = [{ partition: 0, errorCode: 0, batches: [example, example], cutBytes: 0 }];
  const raw = encodeResponse([{ topicName: 't', partitions }]);
  for (let at = 0; at < raw.length; at++) {
    for (const value of [0, 1, 0x7f, 0x80, 0xff]) {
      const damaged = Buffer.from(raw);
      damaged[at] = value;
      const decoded = decodeFetchResponse(damaged);
      const records =
        decoded?.responses.flatMap((topic) => topic.partitions.flatMap((one) => one.messages)) ?? [];
      for (const one of records) expect(one.value.length).toBeLessThanOrEqual(raw.length);
    }
    expect(() => decodeFetchResponse(raw.subarray(0, at))).not.toThrow();
  }
});
