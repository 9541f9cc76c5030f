import { headerList } from '../../headers.ts';
import type { OutgoingRecord } from '../../log.ts';
import { crc32c } from './crc32c.ts';

/**
 * The record batch format, version 2, uncompressed and without a producer id. Source: "Record
 * Batch" in the message format section of Kafka's documentation. All bytes are written once, into
 * one buffer: kafkajs creates several objects per field, which took a fifth of the CPU time of the
 * gateway.
 */

/** Bytes of a batch before its records. */
export const BATCH_HEAD_BYTES = 61;
/** Bytes of a batch before the part that its length counts. */
export const BATCH_LENGTH_BYTES = 12;
/** The version of the format. */
export const MAGIC = 2;
/** Offsets of fields in a batch. The first one is the offset of the first record, at 0. */
export const LENGTH_AT = 8;
const LEADER_EPOCH_AT = 12;
export const MAGIC_AT = 16;
const CHECKSUM_AT = 17;
/** The part that the checksum covers begins with the attributes. */
export const ATTRIBUTES_AT = 21;
const LAST_OFFSET_DELTA_AT = 23;
export const FIRST_TIMESTAMP_AT = 27;
export const MAX_TIMESTAMP_AT = 35;
const PRODUCER_ID_AT = 43;
const PRODUCER_EPOCH_AT = 51;
const SEQUENCE_AT = 53;
export const RECORDS_AT = 57;
/** Attributes and the timestamp delta, both 0. */
const RECORD_FIXED_BYTES = 2;
const VARINT_BYTES_MAX = 5;

const NO_HEADERS: NonNullable<OutgoingRecord['headers']> = {};
/** The encoded headers by their object: most records share one. */
const encodedHeaders = new WeakMap<object, Buffer>();

/** The lengths, the timestamp and the offset of a record as varints, and its attributes. */
const RECORD_OVERHEAD_BYTES = 36;

/**
 * Returns an upper bound of the size of a record inside a record batch: lengths as varints of five
 * bytes, timestamp and offset. Source: the record format, version 2, in Kafka's protocol guide.
 */
export function recordBytes({ key, value, headers = NO_HEADERS }: OutgoingRecord): number {
  return RECORD_OVERHEAD_BYTES + Buffer.byteLength(key) + value.length + headerBytes(headers).length;
}

/** Writes a batch at an offset, and returns its end. `nowMs` is the time of its records. */
export function writeBatch(
  target: Buffer,
  start: number,
  records: readonly OutgoingRecord[],
  nowMs: number,
): number {
  const nowBig = BigInt(nowMs);
  target.writeBigInt64BE(0n, start);
  target.writeInt32BE(-1, start + LEADER_EPOCH_AT);
  target.writeInt8(MAGIC, start + MAGIC_AT);
  target.writeInt16BE(0, start + ATTRIBUTES_AT);
  target.writeInt32BE(records.length - 1, start + LAST_OFFSET_DELTA_AT);
  target.writeBigInt64BE(nowBig, start + FIRST_TIMESTAMP_AT);
  target.writeBigInt64BE(nowBig, start + MAX_TIMESTAMP_AT);
  target.writeBigInt64BE(-1n, start + PRODUCER_ID_AT);
  target.writeInt16BE(-1, start + PRODUCER_EPOCH_AT);
  target.writeInt32BE(-1, start + SEQUENCE_AT);
  target.writeInt32BE(records.length, start + RECORDS_AT);
  let end = start + BATCH_HEAD_BYTES;
  for (let index = 0; index < records.length; index++) {
    end = writeRecord(target, end, records[index]!, index);
  }
  target.writeInt32BE(end - start - BATCH_LENGTH_BYTES, start + LENGTH_AT);
  target.writeUInt32BE(crc32c(target, start + ATTRIBUTES_AT, end), start + CHECKSUM_AT);
  return end;
}

function writeRecord(
  target: Buffer,
  start: number,
  { key, value, headers = NO_HEADERS }: OutgoingRecord,
  index: number,
): number {
  const keyLength = Buffer.byteLength(key);
  const headersEncoded = headerBytes(headers);
  const length =
    RECORD_FIXED_BYTES +
    varintBytes(index) +
    varintBytes(keyLength) +
    keyLength +
    varintBytes(value.length) +
    value.length +
    headersEncoded.length;
  let at = writeVarint(target, start, length);
  target[at++] = 0;
  target[at++] = 0;
  at = writeVarint(target, at, index);
  at = writeVarint(target, at, keyLength);
  at += typeof key === 'string' ? target.write(key, at) : key.copy(target, at);
  at = writeVarint(target, at, value.length);
  at += value.copy(target, at);
  return at + headersEncoded.copy(target, at);
}

function headerBytes(headers: NonNullable<OutgoingRecord['headers']>): Buffer {
  const known = encodedHeaders.get(headers);
  if (known) return known;
  const list = headerList(headers);
  const bytes = list.reduce(
    (sum, { name, value }) =>
      sum + 2 * VARINT_BYTES_MAX + Buffer.byteLength(name) + (value === null ? 0 : value.length),
    VARINT_BYTES_MAX,
  );
  const target = Buffer.alloc(bytes);
  let at = writeVarint(target, 0, list.length);
  for (const { name, value } of list) {
    at = writeVarint(target, at, Buffer.byteLength(name));
    at += target.write(name, at);
    at = writeVarint(target, at, value === null ? -1 : value.length);
    if (value !== null) at += value.copy(target, at);
  }
  const encoded = target.subarray(0, at);
  encodedHeaders.set(headers, encoded);
  return encoded;
}

/** Writes an integer of 32 bits in zigzag form, 7 bits per byte; returns the end. */
function writeVarint(target: Buffer, start: number, value: number): number {
  let at = start;
  let rest = ((value << 1) ^ (value >> 31)) >>> 0;
  while (rest > 0x7f) {
    target[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[at++] = rest;
  return at;
}

/** Returns the bytes of a varint that is not negative. */
function varintBytes(value: number): number {
  if (value < 1 << 6) return 1;
  if (value < 1 << 13) return 2;
  if (value < 1 << 20) return 3;
  return value < 1 << 27 ? 4 : 5;
}
