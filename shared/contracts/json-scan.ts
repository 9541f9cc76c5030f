import { isUtf8 } from 'node:buffer';
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  DOT,
  isDigit,
  isWhitespace,
  MINUS,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  ZERO,
} from './json-bytes.ts';

/** Bytes of a string that stand for themselves, if the whole text is UTF-8. */
const IS_PLAIN = new Uint8Array(256).fill(1, SPACE);
IS_PLAIN[QUOTE] = 0;
IS_PLAIN[BACKSLASH] = 0;

/** Bytes of a string in ASCII that stand for themselves and are no control characters. */
const IS_PLAIN_ASCII = IS_PLAIN.slice().fill(0, 0x7f);

const ASCII_MAX = 0x7f;
/** Digits of a number that int32 always holds. */
const INT32_DIGITS = 9;
/** Digits of a number that a double holds exactly. */
const DOUBLE_DIGITS = 15;
/** Powers of ten, which doubles hold exactly. The quotient of two exact doubles is rounded once. */
const POWERS_OF_TEN = Array.from({ length: DOUBLE_DIGITS + 1 }, (_, i) => 10 ** i);

/** Requests with more white space between two tokens are read in steps instead. */
const SPACE_MAX = 1024;

const OBJECT_START = Uint8Array.of(OPEN_BRACE);

/**
 * Moves over JSON in the form that gateways write, without building values: no white space and no
 * escapes. The methods return false if the text continues in another form. `byte` and `literal` then
 * stay where they are; after the others, all further calls return false. Only if {@link isAtEnd} is
 * true in the end was the text read correctly. If not, the caller must read it with readJson.
 */
export class JsonScan {
  bytes: Buffer = Buffer.alloc(0);
  at = 0;
  /** The bytes of the last string without its quotes, or of the last list without its brackets. */
  start = 0;
  end = 0;
  /** The last number. */
  number = 0;
  private bits = 0;

  reset(bytes: Buffer): void {
    this.bytes = bytes;
    this.at = 0;
    this.bits = 0;
  }

  /** Returns whether the whole text was read and is UTF-8. */
  isAtEnd(): boolean {
    return this.at === this.bytes.length && (this.bits <= ASCII_MAX || isUtf8(this.bytes));
  }

  byte(expected: number): boolean {
    if (this.at >= this.bytes.length || this.bytes[this.at] !== expected) return false;
    this.at++;
    return true;
  }

  /** White space, of limited length. Returns whether there is any. */
  space(): boolean {
    const { bytes, at: start } = this;
    const limit = Math.min(start + SPACE_MAX, bytes.length);
    let at = start;
    while (at < limit && isWhitespace(bytes[at]!)) at++;
    this.at = at;
    return at > start;
  }

  literal(expected: Uint8Array): boolean {
    const { bytes, at } = this;
    const { length } = expected;
    if (at + length > bytes.length) return false;
    for (let i = 0; i < length; i++) if (bytes[at + i] !== expected[i]) return false;
    this.at = at + length;
    return true;
  }

  string(): boolean {
    const { bytes } = this;
    const { length } = bytes;
    if (!this.byte(QUOTE)) return this.fail();
    const start = this.at;
    let { bits } = this;
    let at = start;
    while (at < length) {
      const byte = bytes[at]!;
      if (IS_PLAIN[byte] === 0) break;
      bits |= byte;
      at++;
    }
    if (at >= length || bytes[at] !== QUOTE) return this.fail();
    this.bits = bits;
    this.start = start;
    this.end = at;
    this.at = at + 1;
    return true;
  }

  /** A string of at most `lengthMax` characters in ASCII, without control characters. */
  ascii(lengthMax: number): boolean {
    const { bytes } = this;
    if (!this.byte(QUOTE)) return this.fail();
    const start = this.at;
    const limit = Math.min(start + lengthMax, bytes.length - 1);
    let at = start;
    while (at < limit && IS_PLAIN_ASCII[bytes[at]!] !== 0) at++;
    if (bytes[at] !== QUOTE) return this.fail();
    this.start = start;
    this.end = at;
    this.at = at + 1;
    return true;
  }

  /** Returns the last string or list as text. */
  text(): string {
    const { bytes, start, end } = this;
    return bytes.toString(this.bits <= ASCII_MAX ? 'latin1' : 'utf8', start, end);
  }

  strings(): boolean {
    return this.list(() => this.string());
  }

  /** Moves over a list of objects with exactly these two members, whose values are strings. */
  pairs(first: Uint8Array, second: Uint8Array): boolean {
    return this.list(
      () =>
        this.literal(OBJECT_START) &&
        this.literal(first) &&
        this.string() &&
        this.byte(COMMA) &&
        this.literal(second) &&
        this.string() &&
        this.byte(CLOSE_BRACE),
    );
  }

  list(item: () => boolean): boolean {
    if (!this.byte(OPEN_BRACKET)) return this.fail();
    const start = this.at;
    if (!this.byte(CLOSE_BRACKET)) {
      do {
        if (!item()) return this.fail();
      } while (this.byte(COMMA));
      if (!this.byte(CLOSE_BRACKET)) return this.fail();
    }
    this.start = start;
    this.end = this.at - 1;
    return true;
  }

  integer(): boolean {
    return this.decimal(INT32_DIGITS, 0);
  }

  double(): boolean {
    return this.decimal(DOUBLE_DIGITS, DOUBLE_DIGITS);
  }

  /** A number that continues, for example with an exponent, is refused by the next call. */
  private decimal(digitsMax: number, fractionMax: number): boolean {
    const { bytes } = this;
    const isNegative = this.byte(MINUS);
    const start = this.at;
    let value = this.digits();
    let digits = this.at - start;
    if (digits === 0 || (digits > 1 && bytes[start] === ZERO)) return this.fail();
    if (fractionMax > 0 && this.byte(DOT)) {
      const point = this.at;
      value = this.digits(value);
      const fraction = this.at - point;
      digits += fraction;
      if (fraction === 0 || digits > digitsMax) return this.fail();
      value /= POWERS_OF_TEN[fraction]!;
    }
    // The text of -0 differs from that of its value.
    if (digits > digitsMax || (isNegative && value === 0)) return this.fail();
    this.number = isNegative ? -value : value;
    return true;
  }

  private fail(): false {
    this.at = this.bytes.length + 1;
    return false;
  }

  private digits(before = 0): number {
    const { bytes } = this;
    let value = before;
    let { at } = this;
    while (at < bytes.length && isDigit(bytes[at]!)) {
      value = value * 10 + bytes[at]! - ZERO;
      at++;
    }
    this.at = at;
    return value;
  }
}
