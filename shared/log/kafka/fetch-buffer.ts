import type { LogRecord } from '../log.ts';

/**
 * Bytes of one partition that may be buffered for its handler. The last fetch may exceed this
 * limit.
 */
const BUFFERED_BYTES_MAX = 1_048_576;

/**
 * Estimated bytes of a record in addition to its value: its key, its headers and the objects around
 * them.
 */
const RECORD_OVERHEAD_BYTES = 200;

/** The buffer of one partition: fetched records that wait for its handler, in order. */
export class FetchBuffer {
  private records: LogRecord[] = [];
  private bytes = 0;

  get length(): number {
    return this.records.length;
  }

  /** Returns the records, oldest first. */
  peek(): readonly LogRecord[] {
    return this.records;
  }

  /** Returns whether the buffer is full, so that fetching should pause. */
  isFull(): boolean {
    return this.bytes >= BUFFERED_BYTES_MAX;
  }

  add(records: readonly LogRecord[]): void {
    for (const record of records) {
      this.records.push(record);
      this.bytes += bytesOf(record);
    }
  }

  /** Removes and returns the oldest records, `recordsMax` at most. */
  take(recordsMax: number): LogRecord[] {
    const taken = this.records.splice(0, recordsMax);
    for (const record of taken) this.bytes -= bytesOf(record);
    return taken;
  }

  clear(): void {
    this.records = [];
    this.bytes = 0;
  }
}

const bytesOf = (record: LogRecord): number => record.value.length + RECORD_OVERHEAD_BYTES;
