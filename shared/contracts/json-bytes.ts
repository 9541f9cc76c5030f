/** The bytes of JSON's grammar, and scans over them. */

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
export const SPACE = 0x20;
export const QUOTE = 0x22;
export const PLUS = 0x2b;
export const COMMA = 0x2c;
export const MINUS = 0x2d;
export const DOT = 0x2e;
export const ZERO = 0x30;
const NINE = 0x39;
export const COLON = 0x3a;
export const OPEN_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
export const LOWER_E = 0x65;
export const LOWER_F = 0x66;
export const LOWER_N = 0x6e;
export const LOWER_T = 0x74;
export const LOWER_U = 0x75;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

/** Classes of bytes as bits. A lookup is faster than several comparisons. */
const KINDS = new Uint8Array(256);
const IS_WHITESPACE = 1;
const IS_DIGIT = 2;
const IS_PLAIN = 4;
for (let byte = SPACE; byte < 0x80; byte++) {
  if (byte !== QUOTE && byte !== BACKSLASH) KINDS[byte] = IS_PLAIN;
}
for (let byte = ZERO; byte <= NINE; byte++) KINDS[byte]! |= IS_DIGIT;
for (const byte of [TAB, LINE_FEED, CARRIAGE_RETURN, SPACE]) KINDS[byte]! |= IS_WHITESPACE;

/**
 * Returns the byte at an index, or -1 past the end. Without this check, V8 slows down all reads of
 * an array that was once read out of bounds.
 */
export function byteAt(bytes: Uint8Array, at: number): number {
  return at < bytes.length ? bytes[at]! : -1;
}

export function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}

export function isWhitespace(byte: number): boolean {
  return (KINDS[byte]! & IS_WHITESPACE) !== 0;
}

export function digitsEnd(bytes: Uint8Array, from: number, endMax: number): number {
  const end = Math.min(endMax, bytes.length);
  let at = from;
  while (at < end && (KINDS[bytes[at]!]! & IS_DIGIT) !== 0) at++;
  return at;
}

/**
 * Finds the end of a run of plain characters in a string: ASCII without quotes, backslashes and
 * control characters. Scans 4 bytes at a time, which is 3 times as fast as one at a time.
 */
export class PlainRuns {
  private readonly bytes: Uint8Array;
  private readonly words: Int32Array;
  /** Bytes between the start of the first aligned word and the first byte of the input. */
  private readonly lead: number;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.lead = bytes.byteOffset & 3;
    this.words = new Int32Array(bytes.buffer, bytes.byteOffset - this.lead, (this.lead + bytes.length) >> 2);
  }

  /**
   * Returns the end of the run that begins at `from`, or `end` if the run continues beyond that.
   */
  end(from: number, end: number): number {
    const { bytes, words, lead } = this;
    let at = from;
    while (at < end && ((at + lead) & 3) !== 0) {
      if ((KINDS[bytes[at]!]! & IS_PLAIN) === 0) return at;
      at++;
    }
    const lastWord = (end + lead) >> 2;
    let index = (at + lead) >> 2;
    while (index < lastWord && isPlainWord(words[index]!)) index++;
    at = Math.max(at, (index << 2) - lead);
    while (at < end && (KINDS[bytes[at]!]! & IS_PLAIN) !== 0) at++;
    return at;
  }
}

/**
 * Returns whether all 4 bytes are plain. Any other byte sets the highest bit of a byte in one of
 * the terms.
 */
function isPlainWord(word: number): boolean {
  const quotes = (word ^ 0x22222222) - 0x01010101;
  const backslashes = (word ^ 0x5c5c5c5c) - 0x01010101;
  const controls = word - 0x20202020;
  return ((word | quotes | backslashes | controls) & 0x80808080) === 0;
}
