import { InexactNumber, JsonSyntaxError } from './json.ts';
import { byteAt, DOT, digitsEnd, isDigit, LOWER_E, MINUS, PLUS, ZERO } from './json-bytes.ts';
import type { Source } from './json-source.ts';

/**
 * Maximum characters of a number. Converting a longer number to a double takes too long in one
 * step.
 */
const LENGTH_MAX = 65_536;
/** Digits of an integer that may be exact as a double. */
const EXACT_DIGITS = 16;
/** Powers of 10 up to this one are exact as doubles. */
const EXACT_POWER = 22;
const POWERS = Array.from({ length: EXACT_POWER + 1 }, (_, power) => Number(`1e${power}`));

/** Reads numbers. Never rounds a number with a fraction to an integer. */
export class NumberReader {
  /** Offset after the last number. */
  end = 0;

  private readonly source: Source;
  private readonly bytes: Buffer;

  constructor(source: Source) {
    this.source = source;
    this.bytes = source.bytes;
  }

  /** Reads the number that begins at `start`, and sets `end`. Returns 0 if `isSkipped`. */
  read(start: number, isSkipped: boolean): number | InexactNumber {
    const { bytes } = this;
    const limit = start + LENGTH_MAX + 1;
    const wholeStart = bytes[start] === MINUS ? start + 1 : start;
    let at = wholeStart;
    let byte = byteAt(bytes, at);
    if (!isDigit(byte)) this.source.fail('a value expected', start);
    // JSON allows no digits after a leading zero.
    at = byte === ZERO ? at + 1 : digitsEnd(bytes, at, limit);
    const wholeEnd = at;
    byte = byteAt(bytes, at);
    let fractionDigits = 0;
    if (byte === DOT && isDigit(byteAt(bytes, at + 1))) {
      at = digitsEnd(bytes, at + 1, limit);
      fractionDigits = at - wholeEnd - 1;
      byte = byteAt(bytes, at);
    }
    this.end = at;
    const power = ((byte | 0x20) === LOWER_E ? this.readExponent(at) : 0) - fractionDigits;
    if (this.end - start > LENGTH_MAX) {
      throw new JsonSyntaxError(`has a number of more than ${LENGTH_MAX} characters`);
    }
    if (isSkipped) return 0;
    const digits = (bytes[wholeStart] === ZERO ? 0 : wholeEnd - wholeStart) + fractionDigits;
    if (digits <= EXACT_DIGITS && power <= EXACT_POWER && power >= -EXACT_POWER) {
      let mantissa = integerOf(bytes, wholeStart, wholeEnd);
      if (fractionDigits > 0)
        mantissa = mantissa * POWERS[fractionDigits]! + integerOf(bytes, wholeEnd + 1, at);
      if (mantissa <= Number.MAX_SAFE_INTEGER) {
        // Both are exact as doubles, so the result of one operation is rounded correctly.
        const value =
          power === 0 ? mantissa : power < 0 ? mantissa / POWERS[-power]! : mantissa * POWERS[power]!;
        return wholeStart === start ? value : -value;
      }
    }
    return this.convert(start, at, power);
  }

  /**
   * Returns the exponent that begins with the letter at `letterAt`, and sets `end`. Returns 0 if
   * the exponent has no digits.
   */
  private readExponent(letterAt: number): number {
    const { bytes } = this;
    const sign = byteAt(bytes, letterAt + 1);
    const start = sign === PLUS || sign === MINUS ? letterAt + 2 : letterAt + 1;
    const end = digitsEnd(bytes, start, start + LENGTH_MAX + 1);
    if (end === start) return 0;
    this.end = end;
    let exponent = 0;
    for (let at = start; at < end; at++) exponent = exponent * 10 + bytes[at]! - ZERO;
    return sign === MINUS ? -exponent : exponent;
  }

  /** Converts the number whose digits end at `mantissaEnd`, multiplied by a power of 10. */
  private convert(start: number, mantissaEnd: number, power: number): number | InexactNumber {
    const value = Number(this.source.slice(start, this.end, this.source.surplus));
    if (power >= 0 || !Number.isInteger(value)) return value;
    return this.endsWithZeros(start, mantissaEnd, -power) ? value : new InexactNumber(value);
  }

  /** Returns whether the last `count` digits are 0. Digits before the first count as 0. */
  private endsWithZeros(start: number, end: number, count: number): boolean {
    let left = count;
    for (let at = end - 1; at >= start && left > 0; at--) {
      const byte = this.bytes[at]!;
      if (!isDigit(byte)) continue;
      if (byte !== ZERO) return false;
      left--;
    }
    return true;
  }
}

/**
 * Returns the integer that at most 16 digits represent. 32-bit arithmetic is faster than arithmetic
 * with doubles.
 */
function integerOf(bytes: Buffer, from: number, to: number): number {
  const middle = Math.max(from, to - 8);
  const low = smallIntegerOf(bytes, middle, to);
  return middle === from ? low : smallIntegerOf(bytes, from, middle) * 1e8 + low;
}

function smallIntegerOf(bytes: Buffer, from: number, to: number): number {
  let integer = 0;
  for (let at = from; at < to; at++) integer = (Math.imul(integer, 10) + (bytes[at]! & 15)) | 0;
  return integer;
}
