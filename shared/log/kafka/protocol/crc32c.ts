/** CRC-32C (Castagnoli), reflected. Source: RFC 3720, appendix B.4. */
const POLYNOMIAL = 0x82f63b78;
/** Bytes per step. */
const STEP = 8;

/**
 * Eight tables of 256 entries: entry `byte` of table n is the checksum of that byte followed by n
 * zeros. So eight bytes take eight lookups that do not depend on each other ("slicing by 8"),
 * which is three times as fast as one byte at a time.
 */
const TABLES = createTables();

/** Returns the checksum of the bytes from `start` to `end`, as an unsigned integer. */
export function crc32c(bytes: Uint8Array, start: number, end: number): number {
  let crc = -1;
  let at = start;
  for (; at + STEP <= end; at += STEP) {
    crc ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    crc =
      TABLES[1792 + (crc & 0xff)]! ^
      TABLES[1536 + ((crc >>> 8) & 0xff)]! ^
      TABLES[1280 + ((crc >>> 16) & 0xff)]! ^
      TABLES[1024 + (crc >>> 24)]! ^
      TABLES[768 + bytes[at + 4]!]! ^
      TABLES[512 + bytes[at + 5]!]! ^
      TABLES[256 + bytes[at + 6]!]! ^
      TABLES[bytes[at + 7]!]!;
  }
  for (; at < end; at++) crc = TABLES[(crc ^ bytes[at]!) & 0xff]! ^ (crc >>> 8);
  return ~crc >>> 0;
}

function createTables(): Int32Array {
  const tables = new Int32Array(STEP * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    tables[byte] = crc;
  }
  for (let at = 256; at < tables.length; at++) {
    const crc = tables[at - 256]!;
    tables[at] = (crc >>> 8) ^ tables[crc & 0xff]!;
  }
  return tables;
}
