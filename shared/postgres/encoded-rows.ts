import { type ColumnType, encodeValue, oidOf, writeArrayHeader } from './array-parameter.ts';

/**
 * Rows whose values are in Postgres's binary form from the start: a worker copies most values from
 * the bytes of a record to the bytes of a statement, and needs no JavaScript value for them.
 */

/** One row; see {@link RowEncoder}. */
export class EncodedRow {
  /** The values as elements of binary arrays: int32 number of bytes, then the bytes. */
  readonly bytes: Buffer;
  /** The start of each value in `bytes`, from index `at` on, and the end of the last value. */
  readonly offsets: Int32Array;
  readonly at: number;

  constructor(bytes: Buffer, offsets: Int32Array, at: number) {
    this.bytes = bytes;
    this.offsets = offsets;
    this.at = at;
  }
}

/** Returns whether the row has a value (which may be NULL) in this column. */
export function hasValue({ offsets, at }: EncodedRow, column: number): boolean {
  return offsets[at + column] !== offsets[at + column + 1];
}

/** Returns whether the row has a text or list in this column that is neither empty nor NULL. */
export function hasText(row: EncodedRow, column: number): boolean {
  return bytesOf(row, column) > LENGTH_BYTES;
}

/** Returns the start of a value in the row's buffer, with its length. */
export function valueStart({ offsets, at }: EncodedRow, column: number): number {
  return offsets[at + column]!;
}

/** Returns the end of a value in the row's buffer: the start if there is no value. */
export function valueEnd({ offsets, at }: EncodedRow, column: number): number {
  return offsets[at + column + 1]!;
}

/** Returns the start of the bytes of a text or list in the row's buffer, without their length. */
export function textStart({ offsets, at }: EncodedRow, column: number): number {
  return offsets[at + column]! + LENGTH_BYTES;
}

/** Returns the end of the bytes of a text or list: the start if there is no value, or NULL. */
export function textEnd(row: EncodedRow, column: number): number {
  return Math.max(textStart(row, column), row.offsets[row.at + column + 1]!);
}

/** Returns a text, or the array literal of a list; empty if there is no value, or NULL. */
export function textOf(row: EncodedRow, column: number): string {
  return row.bytes.toString('utf8', textStart(row, column), textEnd(row, column));
}

/** Returns an int32 of the row, which must have it. */
export function int32Of({ bytes, offsets, at }: EncodedRow, column: number): number {
  return bytes.readInt32BE(offsets[at + column]! + LENGTH_BYTES);
}

/** Returns a double of the row, which must have it. */
export function doubleOf({ bytes, offsets, at }: EncodedRow, column: number): number {
  return bytes.readDoubleBE(offsets[at + column]! + LENGTH_BYTES);
}

/** Returns an int64 of the row, which must have it. */
export function int64Of({ bytes, offsets, at }: EncodedRow, column: number): bigint {
  return bytes.readBigInt64BE(offsets[at + column]! + LENGTH_BYTES);
}

/** Rows share buffers of this size. A longer row has a buffer of its own. */
const CHUNK_BYTES = 64 * 1024;
const LENGTH_BYTES = 4;
const NULL_ELEMENT = Uint8Array.of(0xff, 0xff, 0xff, 0xff);
/** Shorter values are copied faster by a loop than by a call of native code. */
const LOOP_BYTES_MAX = 96;

/**
 * Encodes rows of a fixed number of columns. After `begin`, each column gets one call, in order;
 * `end` returns the row. A row that is not ended is dropped by the next `begin`.
 */
export class RowEncoder {
  private readonly columns: number;
  private bytes: Buffer = Buffer.alloc(0);
  private offsets: Int32Array = new Int32Array(0);
  /** The first byte that no ended row uses. */
  private free = 0;
  private row = 0;
  private column = 0;
  private at = 0;

  constructor(columns: number) {
    this.columns = columns;
  }

  /** Begins a row. `bytesMax` is an upper bound of the bytes of all its values. */
  begin(bytesMax: number): void {
    const headBytes = (this.columns + 1) * Int32Array.BYTES_PER_ELEMENT;
    const needed = headBytes + bytesMax;
    let start = (this.free + 3) & ~3;
    if (start + needed > this.bytes.length) {
      this.bytes = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, (needed + 3) & ~3));
      this.offsets = new Int32Array(this.bytes.buffer);
      start = 0;
    }
    this.row = start >> 2;
    this.at = start + headBytes;
    this.column = 0;
  }

  end(): EncodedRow {
    if (this.column !== this.columns) throw new Error('a row without all of its columns');
    this.offsets[this.row + this.columns] = this.at;
    this.free = this.at;
    return new EncodedRow(this.bytes, this.offsets, this.row);
  }

  /** Returns the bytes of a value of this row, including the 4 bytes of its length. */
  bytesOf(column: number): number {
    const { offsets, row } = this;
    const end = column + 1 === this.column ? this.at : offsets[row + column + 1]!;
    return end - offsets[row + column]!;
  }

  /** Returns a text or list of this row, in UTF-8. */
  textOf(column: number): string {
    const start = this.offsets[this.row + column]!;
    return this.bytes.toString('utf8', start + LENGTH_BYTES, start + this.bytesOf(column));
  }

  /** Leaves the column without a value. */
  absent(): void {
    this.begun();
  }

  null(): void {
    this.element(NULL_ELEMENT, 0, LENGTH_BYTES);
  }

  /** Copies a value with its length. */
  element(source: Uint8Array, start: number, end: number): void {
    this.begun();
    this.at = copyBytes(source, start, end, this.bytes, this.at);
  }

  /** Encodes a text or JSON from its bytes in UTF-8. */
  text(source: Uint8Array, start: number, end: number): void {
    this.begun();
    const at = writeInt32(this.bytes, this.at, end - start);
    this.at = copyBytes(source, start, end, this.bytes, at);
  }

  /** Encodes a list of texts from the inside of its array literal. */
  textList(source: Uint8Array, start: number, end: number): void {
    this.begun();
    const { bytes } = this;
    let at = writeInt32(bytes, this.at, end - start + 2);
    bytes[at] = OPEN_BRACE;
    at = copyBytes(source, start, end, bytes, at + 1);
    bytes[at] = CLOSE_BRACE;
    this.at = at + 1;
  }

  int32(value: number): void {
    this.begun();
    const at = writeInt32(this.bytes, this.at, 4);
    this.at = writeInt32(this.bytes, at, value);
  }

  double(value: number): void {
    this.begun();
    const at = writeInt32(this.bytes, this.at, 8);
    this.at = this.bytes.writeDoubleBE(value, at);
  }

  int64(value: bigint): void {
    this.begun();
    const at = writeInt32(this.bytes, this.at, 8);
    this.at = this.bytes.writeBigInt64BE(value, at);
  }

  private begun(): void {
    this.offsets[this.row + this.column] = this.at;
    this.column++;
  }
}

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** Encodes a row of JavaScript values; undefined leaves a column without a value. */
export function encodeRow(
  encoder: RowEncoder,
  types: readonly ColumnType[],
  values: readonly unknown[],
): EncodedRow {
  const elements = types.map((type, i) => {
    const value = values[i];
    return value === undefined ? undefined : value === null ? NULL_ELEMENT : encodeValue(type, value);
  });
  encoder.begin(elements.reduce((sum, element) => sum + (element?.length ?? 0), 0));
  for (const element of elements) {
    if (element === undefined) encoder.absent();
    else encoder.element(element, 0, element.length);
  }
  return encoder.end();
}

/** Returns a row with the last value of each column among the rows. */
export function mergeRows(encoder: RowEncoder, columns: number, rows: readonly EncodedRow[]): EncodedRow {
  const sources = Array.from({ length: columns }, (_, column) =>
    rows.findLast((row) => hasValue(row, column)),
  );
  encoder.begin(sources.reduce((sum, row, column) => sum + (row ? bytesOf(row, column) : 0), 0));
  for (const [column, row] of sources.entries()) {
    if (row) encoder.element(row.bytes, row.offsets[row.at + column]!, row.offsets[row.at + column + 1]!);
    else encoder.absent();
  }
  return encoder.end();
}

function bytesOf({ offsets, at }: EncodedRow, column: number): number {
  return offsets[at + column + 1]! - offsets[at + column]!;
}

/**
 * Returns a column of the rows as an array parameter. `missing` is the value of rows without one.
 * Default: NULL.
 */
export function columnParameter<Row>(
  type: ColumnType,
  rows: readonly Row[],
  encodedOf: (row: Row) => EncodedRow,
  column: number,
  missing?: unknown,
): Buffer {
  const absent = missing === undefined ? NULL_ELEMENT : encodeValue(type, missing);
  let elementBytes = 0;
  for (const row of rows) {
    const encoded = encodedOf(row);
    const bytes = bytesOf(encoded, column);
    elementBytes += bytes === 0 ? absent.length : bytes;
  }
  const { array, start } = writeArrayHeader(oidOf(type), rows.length, elementBytes);
  let at = start;
  for (const row of rows) {
    const { bytes, offsets, at: first } = encodedOf(row);
    const from = offsets[first + column]!;
    const to = offsets[first + column + 1]!;
    at = from === to ? copyBytes(absent, 0, absent.length, array, at) : copyBytes(bytes, from, to, array, at);
  }
  return array;
}

function writeInt32(bytes: Uint8Array, at: number, value: number): number {
  bytes[at] = value >> 24;
  bytes[at + 1] = value >> 16;
  bytes[at + 2] = value >> 8;
  bytes[at + 3] = value;
  return at + 4;
}

/** Copies bytes, and returns the end of the copy. */
function copyBytes(source: Uint8Array, start: number, end: number, target: Uint8Array, at: number): number {
  const length = end - start;
  if (length > LOOP_BYTES_MAX) target.set(source.subarray(start, end), at);
  else for (let i = 0; i < length; i++) target[at + i] = source[start + i]!;
  return at + length;
}
