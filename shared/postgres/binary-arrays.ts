/**
 * Postgres's binary form of array parameters. The driver sends a Buffer as a binary parameter
 * without copying its text. Layout (array_recv in arrayfuncs.c): int32 dimensions, int32 flag for
 * NULLs, int32 type of the elements, int32 elements, int32 lower bound, then the elements: int32
 * bytes (-1: NULL) and the bytes.
 */

const HEADER_BYTES = 20;
const INT4 = { oid: 23, bytes: 4 };
const BYTEA = { oid: 17 };
const TEXT = { oid: 25 };

/** Returns the parameter for an `int[]`. */
export function int4Array(values: readonly number[]): Buffer {
  const array = startArray(INT4.oid, values.length, values.length * (4 + INT4.bytes));
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(INT4.bytes, at);
    at = array.writeInt32BE(value, at);
  }
  return array;
}

/** Returns the parameter for a `bytea[]`. */
export function byteaArray(values: readonly Buffer[]): Buffer {
  const bytes = values.reduce((sum, value) => sum + 4 + value.length, 0);
  const array = startArray(BYTEA.oid, values.length, bytes);
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(value.length, at);
    at += value.copy(array, at);
  }
  return array;
}

/** Returns the parameter for a `text[]`; null becomes NULL. */
export function textArray(values: readonly (string | null)[]): Buffer {
  const lengths = values.map((value) => (value === null ? 0 : Buffer.byteLength(value)));
  const bytes = lengths.reduce((sum, length) => sum + 4 + length, 0);
  const array = startArray(TEXT.oid, values.length, bytes);
  let at = HEADER_BYTES;
  values.forEach((value, i) => {
    at = array.writeInt32BE(value === null ? -1 : lengths[i]!, at);
    if (value !== null) at += array.write(value, at);
  });
  return array;
}

/** Returns an array of one dimension whose elements are not written yet. */
function startArray(elementType: number, length: number, elementBytes: number): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + elementBytes);
  array.writeInt32BE(1, 0);
  // The flag is only a hint: elements of -1 bytes are NULL in any case.
  array.writeInt32BE(0, 4);
  array.writeInt32BE(elementType, 8);
  array.writeInt32BE(length, 12);
  array.writeInt32BE(1, 16);
  return array;
}
