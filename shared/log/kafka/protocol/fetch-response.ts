import type { LogHeader, LogRecord } from '../../log.ts';
import {
  ATTRIBUTES_AT,
  BATCH_HEAD_BYTES,
  BATCH_LENGTH_BYTES,
  FIRST_TIMESTAMP_AT,
  LENGTH_AT,
  MAGIC,
  MAGIC_AT,
  MAX_TIMESTAMP_AT,
  RECORDS_AT,
} from './record-batch.ts';

/**
 * Decodes responses to Fetch requests, version 11. Source: "Fetch Response (Version: 11)" and
 * "Record Batch" in Kafka's protocol guide. kafkajs creates a dozen objects per record, which took a
 * tenth of the CPU time of a worker.
 */

/** A record as kafkajs's consumer expects it, which is a record of the log too. */
export class FetchedRecord implements LogRecord {
  readonly offset: bigint;
  readonly key: Buffer | null;
  readonly value: Buffer;
  readonly headers: readonly LogHeader[];
  readonly timestampMs: number;
  /** Read by kafkajs. */
  readonly isControlRecord = false;

  constructor(
    offset: bigint,
    key: Buffer | null,
    value: Buffer,
    headers: readonly LogHeader[],
    timestampMs: number,
  ) {
    this.offset = offset;
    this.key = key;
    this.value = value;
    this.headers = headers;
    this.timestampMs = timestampMs;
  }
}

/** The decoded response, with the names of kafkajs. */
export interface FetchResponse {
  /** 0, because the broker has not delayed the response; it expects the client to wait. */
  readonly throttleTime: 0;
  readonly clientSideThrottleTime: number;
  readonly errorCode: number;
  readonly sessionId: number;
  readonly responses: readonly {
    readonly topicName: string;
    readonly partitions: readonly FetchedPartition[];
  }[];
}

interface FetchedPartition {
  readonly partition: number;
  readonly errorCode: number;
  readonly highWatermark: string;
  readonly lastStableOffset: string;
  readonly lastStartOffset: string;
  readonly abortedTransactions: readonly never[];
  readonly preferredReadReplica: number;
  readonly messages: readonly FetchedRecord[];
}

/** Bits of a batch's attributes. */
const COMPRESSION_MASK = 0x7;
const LOG_APPEND_TIME = 0x8;
const CONTROL = 0x20;

const EMPTY = Buffer.alloc(0);
const NO_HEADERS: readonly LogHeader[] = [];

/** Thrown inside this module for a response that kafkajs has to decode. */
class OtherForm extends Error {}

/**
 * Decodes a response without its length and correlation id. Returns undefined if it has
 * transactions, compressed batches, older messages, or faults. Records refer to the memory of the
 * response.
 */
export function decodeFetchResponse(raw: Buffer): FetchResponse | undefined {
  try {
    return new FetchDecoder(raw).response();
  } catch (error) {
    if (error instanceof OtherForm || error instanceof RangeError) return undefined;
    throw error;
  }
}

class FetchDecoder {
  private readonly raw: Buffer;
  private at = 0;
  /** The bytes of the last headers, and their decoded form: most records have the same. */
  private headersFrom = 0;
  private headersTo = 0;
  private headers = NO_HEADERS;

  constructor(raw: Buffer) {
    this.raw = raw;
  }

  response(): FetchResponse {
    return {
      throttleTime: 0,
      clientSideThrottleTime: this.int32(),
      errorCode: this.int16(),
      sessionId: this.int32(),
      responses: this.list(() => ({
        topicName: this.string(),
        partitions: this.list(() => this.partition()),
      })),
    };
  }

  private partition(): FetchedPartition {
    return {
      partition: this.int32(),
      errorCode: this.int16(),
      highWatermark: this.int64(),
      lastStableOffset: this.int64(),
      lastStartOffset: this.int64(),
      abortedTransactions: this.noTransactions(),
      preferredReadReplica: this.int32(),
      messages: this.records(),
    };
  }

  private noTransactions(): readonly never[] {
    if (this.int32() > 0) throw new OtherForm();
    return [];
  }

  private records(): FetchedRecord[] {
    const bytes = this.int32();
    const records: FetchedRecord[] = [];
    if (bytes <= 0) return records;
    const end = this.at + bytes;
    if (end > this.raw.length) throw new OtherForm();
    while (end - this.at >= BATCH_HEAD_BYTES) {
      const batchEnd = this.at + BATCH_LENGTH_BYTES + this.raw.readInt32BE(this.at + LENGTH_AT);
      // A broker cuts the last batch off at the maximum size of the response.
      if (batchEnd > end) break;
      this.batch(batchEnd, records);
      if (this.at !== batchEnd) throw new OtherForm();
    }
    this.at = end;
    return records;
  }

  private batch(end: number, records: FetchedRecord[]): void {
    const { raw, at } = this;
    const attributes = raw.readInt16BE(at + ATTRIBUTES_AT);
    if (raw[at + MAGIC_AT] !== MAGIC || (attributes & (COMPRESSION_MASK | CONTROL)) !== 0)
      throw new OtherForm();
    const firstOffset = raw.readBigInt64BE(at);
    const appendTimeMs =
      (attributes & LOG_APPEND_TIME) === 0 ? undefined : Number(raw.readBigInt64BE(at + MAX_TIMESTAMP_AT));
    const firstTimestampMs = Number(raw.readBigInt64BE(at + FIRST_TIMESTAMP_AT));
    const count = raw.readInt32BE(at + RECORDS_AT);
    this.at = at + BATCH_HEAD_BYTES;
    for (let i = 0; i < count; i++) {
      const length = this.varint();
      const recordEnd = this.at + length;
      if (length < 0 || recordEnd > end) throw new OtherForm();
      // The attributes of a record are not used.
      this.at += 1;
      const timestampMs = firstTimestampMs + this.varint();
      const offset = firstOffset + BigInt(this.varint());
      const key = this.bytes(recordEnd);
      const value = this.bytes(recordEnd) ?? EMPTY;
      records.push(
        new FetchedRecord(offset, key, value, this.readHeaders(recordEnd), appendTimeMs ?? timestampMs),
      );
      if (this.at !== recordEnd) throw new OtherForm();
    }
  }

  /** Reads the headers at the end of a record. */
  private readHeaders(end: number): readonly LogHeader[] {
    const { at } = this;
    if (this.hasLastHeaders(at, end)) {
      this.at = end;
      return this.headers;
    }
    const count = this.varint();
    const headers: LogHeader[] = [];
    for (let i = 0; i < count; i++) {
      const name = (this.bytes(end) ?? EMPTY).toString();
      headers.push({ name, value: this.bytes(end) });
    }
    this.headersFrom = at;
    this.headersTo = end;
    this.headers = headers;
    return headers;
  }

  private hasLastHeaders(from: number, to: number): boolean {
    const { raw, headersFrom, headersTo } = this;
    const length = to - from;
    if (length !== headersTo - headersFrom) return false;
    for (let i = 0; i < length; i++) if (raw[from + i] !== raw[headersFrom + i]) return false;
    return true;
  }

  /** Reads bytes after their length; null if the length is negative. */
  private bytes(endMax: number): Buffer | null {
    const length = this.varint();
    if (length < 0) return null;
    const start = this.at;
    this.at = start + length;
    if (this.at > endMax) throw new OtherForm();
    return this.raw.subarray(start, this.at);
  }

  /** Reads an integer in zigzag form, 7 bits per byte. It must be a safe integer. */
  private varint(): number {
    const { raw } = this;
    let { at } = this;
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = raw[at++];
      if (byte === undefined || factor > MAX_FACTOR) throw new OtherForm();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) break;
      factor *= 128;
    }
    this.at = at;
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  private list<T>(item: () => T): T[] {
    const count = this.int32();
    const items: T[] = [];
    for (let i = 0; i < count; i++) items.push(item());
    return items;
  }

  private string(): string {
    const length = this.int16();
    const start = this.at;
    this.at = start + Math.max(0, length);
    return this.raw.toString('utf8', start, this.at);
  }

  private int16(): number {
    this.at += 2;
    return this.raw.readInt16BE(this.at - 2);
  }

  private int32(): number {
    this.at += 4;
    return this.raw.readInt32BE(this.at - 4);
  }

  private int64(): string {
    this.at += 8;
    return this.raw.readBigInt64BE(this.at - 8).toString();
  }
}

/** The seventh byte of an integer is the last one whose bits a double holds exactly. */
const MAX_FACTOR = 128 ** 6;
