import { createRequire } from 'node:module';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { crc32c } from '../../shared/log/kafka/protocol/crc32c.ts';
import { BATCH_HEAD_BYTES, recordBytes, writeBatch } from '../../shared/log/kafka/protocol/record-batch.ts';
import type { OutgoingRecord } from '../../shared/log/log.ts';

// kafkajs has no types for these modules, and they are not used by the product.
const require = createRequire(import.meta.url);
const { RecordBatch } = require('kafkajs/src/protocol/recordBatch/v0');
const encodeRecord = require('kafkajs/src/protocol/recordBatch/record/v0');
const decodeBatch = require('kafkajs/src/protocol/recordBatch/v0/decoder');
const Decoder = require('kafkajs/src/protocol/decoder');

const NOW_MS = Date.parse('2026-06-10T12:00:00.123Z');

const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));
const text = fc.string({ unit: 'binary', maxLength: 100 }).map((value) => value.toWellFormed());
const record = fc.record({
  partition: fc.constant(0),
  key: fc.oneof(text, bytes),
  value: bytes,
  headers: fc.option(fc.dictionary(text, text, { maxKeys: 4, noNullPrototype: true }), { nil: undefined }),
});

/** Returns the batch at an offset of a larger buffer, which already contains other bytes. */
function encode(records: readonly OutgoingRecord[]): Buffer {
  const start = 7;
  const bytesMax = records.reduce((sum, one) => sum + recordBytes(one), BATCH_HEAD_BYTES);
  const target = Buffer.alloc(start + bytesMax, 0xff);
  return target.subarray(start, writeBatch(target, start, records, NOW_MS));
}

it('a record batch has the same bytes as that of kafkajs', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 200 }), async (records) => {
      const expected = await RecordBatch({
        partitionLeaderEpoch: -1,
        producerEpoch: -1,
        firstSequence: -1,
        firstTimestamp: NOW_MS,
        maxTimestamp: NOW_MS,
        lastOffsetDelta: records.length - 1,
        records: records.map(({ key, value, headers }, offsetDelta) =>
          encodeRecord({ key, value, headers: headers ?? {}, offsetDelta }),
        ),
      });
      expect(encode(records as OutgoingRecord[]).equals(expected.buffer)).toBe(true);
    }),
    { numRuns: 300 },
  );
});

it('the checksum is CRC-32C, of any range of the bytes', () => {
  const checked = Buffer.from('123456789');
  // The check value of the catalogue of parametrised CRC algorithms.
  expect(crc32c(checked, 0, checked.length)).toBe(0xe3069283);
  expect(crc32c(Buffer.from('xx123456789yy'), 2, 11)).toBe(0xe3069283);
  expect(crc32c(checked, 3, 3)).toBe(0);
});

it.each([0x3f, 0x40, 0x1fff, 0x2000, 0xfffff, 0x100000])(
  'a value of %i bytes keeps its length',
  async (length) => {
    const value = Buffer.alloc(length, 'v');
    const [read] = await decode(encode([{ partition: 0, key: 'k', value }]));
    expect(read!.value.equals(value)).toBe(true);
  },
);

it('headers keep repeated names, empty values and values that are null', async () => {
  const headers = [
    { name: 'a', value: Buffer.from([0xff]) },
    { name: 'a', value: Buffer.alloc(0) },
    { name: 'b', value: null },
  ];
  const [read] = await decode(encode([{ partition: 0, key: 'k', value: Buffer.from('v'), headers }]));
  expect(read!.headers).toEqual({ a: [Buffer.from([0xff]), Buffer.alloc(0)], b: null });
});

async function decode(batch: Buffer): Promise<{ value: Buffer; headers: object }[]> {
  const decoder = new Decoder(batch);
  return (await decodeBatch(decoder)).records;
}
