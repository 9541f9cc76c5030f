import { headerList } from '../headers.ts';
import type { LogRecord, OutgoingRecord } from '../log.ts';
import type { ReadRange } from './sql/log-records.ts';

/** Records of one partition that this process has appended and Postgres has committed. */
export interface CommittedRecords {
  readonly topic: string;
  readonly partition: number;
  /** Offset of the first record; the others follow without gaps. */
  readonly first: bigint;
  readonly records: readonly OutgoingRecord[];
  readonly appendedAtMs: number;
}

/** Maximum bytes that all readers hold, so that stalled consumers do not fill the memory. */
const BYTES_MAX = 8 * 1024 * 1024;
/** Maximum bytes that the reader of one partition holds, so that it leaves memory for the others. */
const PARTITION_BYTES_MAX = 1024 * 1024;
/**
 * Minimum bytes that a record counts as. A small value keeps a part of Node's shared buffer pool in
 * memory, which is larger than the value.
 */
const RECORD_BYTES_MIN = 1024;

/**
 * Hands records that this process appended to its own readers, so that they are not read back from
 * Postgres. Bounded in memory: records that do not fit are read from Postgres.
 */
export class RecentRecords {
  private readonly readers = new Map<string, Set<RecentReader>>();
  private readonly memory = { bytes: 0 };

  /** Starts to keep the records of a partition for a reader, which must close it. */
  open(topic: string, partition: number): RecentReader {
    const name = nameOf(topic, partition);
    const readers = this.readers.get(name) ?? new Set();
    const reader = new RecentReader(this.memory, () => {
      readers.delete(reader);
      if (readers.size === 0 && this.readers.get(name) === readers) this.readers.delete(name);
    });
    this.readers.set(name, readers.add(reader));
    return reader;
  }

  /** Keeps the records for the readers of their partition. Call it after the commit. */
  add(committed: CommittedRecords): void {
    const readers = this.readers.get(nameOf(committed.topic, committed.partition));
    for (const reader of readers ?? []) reader.add(committed);
  }
}

/** Consecutive recent records of one partition, for one reader. */
export class RecentReader {
  private readonly memory: { bytes: number };
  private readonly onClose: () => void;
  private records: LogRecord[] = [];
  private sizes: number[] = [];
  private bytes = 0;

  constructor(memory: { bytes: number }, onClose: () => void) {
    this.memory = memory;
    this.onClose = onClose;
  }

  /** Keeps those of the records that continue the records held and fit into the memory. */
  add({ first, records, appendedAtMs }: CommittedRecords): void {
    const last = this.records.at(-1);
    if (last !== undefined && last.offset + 1n !== first) return;
    let offset = first;
    for (const { key, value, headers } of records) {
      const size = Math.max(key.length + value.length, RECORD_BYTES_MIN);
      if (this.bytes + size > PARTITION_BYTES_MAX || this.memory.bytes + size > BYTES_MAX) return;
      this.records.push({
        offset: offset++,
        key: Buffer.from(key),
        value,
        headers: headerList(headers),
        timestampMs: appendedAtMs,
      });
      this.sizes.push(size);
      this.bytes += size;
      this.memory.bytes += size;
    }
  }

  /** Returns the records from an offset on; none if that offset is not held. Drops earlier ones. */
  read(from: bigint, { recordsMax, bytesMax }: Pick<ReadRange, 'recordsMax' | 'bytesMax'>): LogRecord[] {
    const first = this.records[0]?.offset;
    if (first === undefined || from < first) return [];
    this.drop(Number(from - first));
    const taken: LogRecord[] = [];
    let bytes = 0;
    for (const record of this.records) {
      bytes += record.value.length;
      if (taken.length === recordsMax || (bytes > bytesMax && taken.length > 0)) break;
      taken.push(record);
    }
    return taken;
  }

  clear(): void {
    this.drop(this.records.length);
  }

  close(): void {
    this.clear();
    this.onClose();
  }

  private drop(count: number): void {
    this.records.splice(0, count);
    const bytes = this.sizes.splice(0, count).reduce((sum, size) => sum + size, 0);
    this.bytes -= bytes;
    this.memory.bytes -= bytes;
  }
}

function nameOf(topic: string, partition: number): string {
  return `${partition} ${topic}`;
}
