/**
 * Postgres's binary form of array parameters, which both sides encode and parse faster than text.
 * The driver sends a Buffer as a binary parameter. Layout (array_recv): int32 number of dimensions,
 * int32 flag for NULLs, int32 type of the elements, int32 number of elements, int32 lower bound,
 * then for each element int32 number of bytes (-1: NULL) and the bytes.
 */

/**
 * The column types of bulk statements. Values: timestamptz as milliseconds, bytea as Buffer, json
 * as text, date as `2026-01-31`, text[] as string[]. `utf8` is a text whose bytes are stored in a
 * bytea, `hex` the bytes of a bytea as hexadecimal digits.
 */
export type ColumnType =
  | 'text'
  | 'integer'
  | 'bigint'
  | 'double precision'
  | 'date'
  | 'bytea'
  | 'utf8'
  | 'hex'
  | 'timestamptz'
  | 'json'
  | 'text[]';

const HEADER_BYTES = 20;
const NULL_BYTES = -1;
/** 2000-01-01, from which Postgres counts times, in milliseconds since the Unix epoch. */
const POSTGRES_EPOCH_MS = 946_684_800_000;
const TWO_TO_32 = 4_294_967_296;
const INT64_MAX = 2n ** 63n - 1n;
const INT64_MIN = -(2n ** 63n);
/** Shorter texts are written faster by a loop than by a call of Buffer. */
const LOOP_LENGTH_MAX = 32;

const SCRATCH_BYTES = 256 * 1024;
/** The scratch buffer is not kept if it has grown beyond this size. */
const SCRATCH_BYTES_MAX = 4 * 1024 * 1024;

/** Buffer in which arrays are encoded before their size is known. */
let scratch = Buffer.allocUnsafe(SCRATCH_BYTES);

/** Returns the end of the written bytes, or -1 if the value has no binary form. */
type WriteElement = (value: unknown, at: number) => number;

interface BinaryType {
  /** OID of the type in pg_type. */
  readonly oid: number;
  readonly write: WriteElement;
}

const TEXT: BinaryType = { oid: 25, write: (value, at) => writeText(String(value), at) };

const BINARY_TYPES: Readonly<Record<ColumnType, BinaryType | undefined>> = {
  text: TEXT,
  json: TEXT,
  'text[]': { oid: 25, write: (value, at) => writeText(arrayText('text', value as readonly string[]), at) },
  utf8: { oid: 17, write: (value, at) => writeText(String(value), at) },
  hex: { oid: 17, write: (value, at) => writeHex(String(value), at) },
  bytea: { oid: 17, write: (value, at) => writeBytes(value as Buffer, at) },
  integer: { oid: 23, write: writeInt32 },
  bigint: { oid: 20, write: writeInt64 },
  'double precision': { oid: 701, write: writeDouble },
  timestamptz: { oid: 1184, write: writeTime },
  date: undefined,
};

/**
 * Returns an array parameter; null and undefined become NULL. The array is binary, or text if a
 * value has no binary form, so that the server reports such a value.
 */
export function arrayParameter(type: ColumnType, values: readonly unknown[]): Buffer | string {
  const binary = BINARY_TYPES[type];
  return (binary && binaryArray(binary, values)) ?? arrayText(type, values);
}

/**
 * Returns the elements of an {@link arrayParameter} as parameters of their own: the bytes of a
 * binary array, else texts. Arrays of texts are always binary, so no text has to be unquoted.
 */
export function elementsOf(array: Buffer | string): (Buffer | string | null)[] {
  if (typeof array === 'string') {
    const elements = array.slice(1, -1).split(',');
    return elements.map((element) => (element === 'NULL' ? null : element));
  }
  const elements: (Buffer | null)[] = [];
  for (let at = HEADER_BYTES; at < array.length; ) {
    const start = at + 4;
    const bytes = array.readInt32BE(at);
    at = start + Math.max(bytes, 0);
    elements.push(bytes === NULL_BYTES ? null : array.subarray(start, at));
  }
  return elements;
}

/** Returns the OID of a type that has a binary form. */
export function oidOf(type: ColumnType): number {
  return BINARY_TYPES[type]!.oid;
}

/**
 * Returns a value as an element of a binary array, with its length. Only for values that have a
 * binary form.
 */
export function encodeValue(type: ColumnType, value: unknown): Buffer {
  ensureCapacity(4);
  const end = BINARY_TYPES[type]!.write(value, 4);
  if (end < 0) throw new TypeError(`a value of type ${type} without a binary form`);
  scratch.writeInt32BE(end - 4, 0);
  return Buffer.from(scratch.subarray(0, end));
}

/**
 * Returns a new binary array whose elements, of this many bytes with their lengths, are yet to be
 * written from `start` on.
 */
export function writeArrayHeader(
  oid: number,
  elements: number,
  elementBytes: number,
): { readonly array: Buffer; readonly start: number } {
  const array = Buffer.allocUnsafe(HEADER_BYTES + elementBytes);
  writeHeader(array, oid, elements);
  return { array, start: HEADER_BYTES };
}

function writeHeader(target: Buffer, oid: number, elements: number): void {
  target.writeInt32BE(1, 0);
  // The flag is only a hint: elements of -1 bytes are NULL in any case.
  target.writeInt32BE(0, 4);
  target.writeInt32BE(oid, 8);
  target.writeInt32BE(elements, 12);
  target.writeInt32BE(1, 16);
}

function binaryArray({ oid, write }: BinaryType, values: readonly unknown[]): Buffer | undefined {
  let at = HEADER_BYTES;
  for (const value of values) {
    ensureCapacity(at + 4);
    if (value === null || value === undefined) {
      at = scratch.writeInt32BE(NULL_BYTES, at);
      continue;
    }
    const end = write(value, at + 4);
    if (end < 0) return undefined;
    scratch.writeInt32BE(end - at - 4, at);
    at = end;
  }
  writeHeader(scratch, oid, values.length);
  const array = Buffer.from(scratch.subarray(0, at));
  if (scratch.length > SCRATCH_BYTES_MAX) scratch = Buffer.allocUnsafe(SCRATCH_BYTES);
  return array;
}

function ensureCapacity(bytes: number): void {
  if (bytes <= scratch.length) return;
  const larger = Buffer.allocUnsafe(Math.max(bytes, scratch.length * 2));
  scratch.copy(larger);
  scratch = larger;
}

function writeText(text: string, at: number): number {
  const { length } = text;
  ensureCapacity(at + length * 3);
  if (length > LOOP_LENGTH_MAX) return at + scratch.write(text, at);
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i);
    if (code > 127) return at + scratch.write(text, at);
    scratch[at + i] = code;
  }
  return at + length;
}

function writeBytes(bytes: Buffer, at: number): number {
  ensureCapacity(at + bytes.length);
  return at + bytes.copy(scratch, at);
}

function writeHex(digits: string, at: number): number {
  ensureCapacity(at + digits.length);
  return at + scratch.write(digits, at, 'hex');
}

function writeInt32(value: unknown, at: number): number {
  const number = value as number;
  if ((number | 0) !== number) return -1;
  ensureCapacity(at + 4);
  return scratch.writeInt32BE(number, at);
}

function writeInt64(value: unknown, at: number): number {
  ensureCapacity(at + 8);
  if (typeof value === 'bigint') {
    // Larger numbers are rounded, but never to a safe integer.
    const number = Number(value);
    if (Number.isSafeInteger(number)) return writeSafeInteger(number, at);
    return value < INT64_MIN || value > INT64_MAX ? -1 : scratch.writeBigInt64BE(value, at);
  }
  return Number.isSafeInteger(value) ? writeSafeInteger(value as number, at) : -1;
}

function writeSafeInteger(value: number, at: number): number {
  scratch.writeInt32BE(Math.floor(value / TWO_TO_32), at);
  return scratch.writeInt32BE(value | 0, at + 4);
}

function writeDouble(value: unknown, at: number): number {
  ensureCapacity(at + 8);
  // The sum turns -0 into 0, as its text does.
  return scratch.writeDoubleBE((value as number) + 0, at);
}

function writeTime(ms: unknown, at: number): number {
  const microseconds = (Math.trunc(ms as number) - POSTGRES_EPOCH_MS) * 1000;
  if (!Number.isSafeInteger(microseconds)) return -1;
  ensureCapacity(at + 8);
  return writeSafeInteger(microseconds, at);
}

/** Returns the text form of a Postgres array; null and undefined become NULL. */
export function arrayText(type: ColumnType, values: readonly unknown[]): string {
  const elementOf = ELEMENTS[type];
  return `{${values.map((value) => (value === null || value === undefined ? 'NULL' : elementOf(value))).join(',')}}`;
}

const ELEMENTS: Readonly<Record<ColumnType, (value: unknown) => string>> = {
  text: (value) => quoted(String(value)),
  json: (value) => quoted(String(value)),
  'text[]': (value) => quoted(arrayText('text', value as readonly string[])),
  integer: String,
  bigint: String,
  'double precision': String,
  date: String,
  timestamptz: (value) => new Date(value as number).toISOString(),
  bytea: (value) => `"\\\\x${(value as Buffer).toString('hex')}"`,
  hex: (value) => `"\\\\x${value}"`,
  utf8: (value) => `"\\\\x${Buffer.from(String(value)).toString('hex')}"`,
};

function quoted(text: string): string {
  const escaped = text.includes('"') || text.includes('\\') ? text.replace(/[\\"]/g, '\\$&') : text;
  return `"${escaped}"`;
}
