import { HAS_LONE_SURROGATE, HAS_NUL } from './json.ts';
import { BACKSLASH, byteAt, LOWER_U, PlainRuns, QUOTE, SPACE } from './json-bytes.ts';
import type { Source } from './json-source.ts';

/** The code unit that an escape's letter represents; 0 for letters that form no escape. */
const ESCAPED = new Uint8Array(256);
for (const [letter, meaning] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t']) {
  ESCAPED[letter!.charCodeAt(0)] = meaning!.charCodeAt(0);
}

/** The value of a hexadecimal digit; -1 for other bytes. */
const HEX_DIGITS = new Int8Array(256).fill(-1);
for (const digit of '0123456789abcdefABCDEF') {
  HEX_DIGITS[digit.charCodeAt(0)] = Number.parseInt(digit, 16);
}

/** Reads strings, in parts if they are long. Inside raw objects it only validates them. */
export class StringReader {
  /** The last string, or its first parts; not set inside raw objects. */
  value = '';
  /** Offset at which reading continues. */
  at = 0;
  /** The first reason why a string inside the raw object cannot be stored. */
  rawProblem: string | undefined;

  private readonly source: Source;
  private readonly bytes: Buffer;
  private readonly plainRuns: PlainRuns;
  /** Start of the part that is not decoded yet, and the surplus at that offset. */
  private from = 0;
  private fromSurplus = 0;
  /** Number of escapes in the part; a surrogate pair counts as one. */
  private escapes = 0;
  /**
   * Start and end of the part's first escape, the surplus at its start, and the code units that it
   * represents.
   */
  private escapeStart = 0;
  private escapeEnd = 0;
  private escapeSurplus = 0;
  private escapeUnit = 0;
  private escapeLow = 0;
  private hasNul = false;
  private hasLoneSurrogate = false;

  constructor(source: Source) {
    this.source = source;
    this.bytes = source.bytes;
    this.plainRuns = new PlainRuns(source.bytes);
  }

  /** Begins a string after its opening quote. */
  begin(at: number): void {
    this.value = '';
    this.at = at;
    this.beginPart(at);
  }

  private beginPart(at: number): void {
    this.from = at;
    this.fromSurplus = this.source.surplus;
    this.escapes = 0;
  }

  /** Reads to about `pauseAt`. Returns true at the end of the string. */
  read(pauseAt: number, isRaw: boolean): boolean {
    const { bytes, plainRuns, source } = this;
    const end = Math.min(pauseAt, bytes.length);
    let at = this.at;
    while (at < end) {
      const byte = bytes[at]!;
      if (byte === BACKSLASH) {
        const isSimple = at + 1 < end && ESCAPED[bytes[at + 1]!] !== 0;
        // From the second escape of a part on, JSON.parse decodes all of them.
        if (isSimple && (isRaw || this.escapes > 1)) at += 2;
        else at = this.readEscape(at, isRaw);
      } else if (byte === QUOTE) {
        if (isRaw) this.endRaw();
        else this.endPart(at);
        this.at = at + 1;
        return true;
      } else if (byte < SPACE) {
        source.fail('control character in a string', at);
      } else if (byte < 0x80) {
        at = plainRuns.end(at + 1, end);
      } else {
        at = this.skipMultibyte(at, end);
      }
    }
    if (at >= bytes.length) source.fail('unfinished string', at);
    if (!isRaw) {
      this.endPart(at);
      this.beginPart(at);
    }
    this.at = at;
    return false;
  }

  /** Returns the end of the run of non-ASCII characters that begins at `from`. */
  private skipMultibyte(from: number, end: number): number {
    const { bytes, source } = this;
    let at = from;
    let { surplus } = source;
    for (let byte = bytes[at]!; at < end && byte >= 0x80; byte = byteAt(bytes, at)) {
      // 2 bytes are 1 code unit, 3 bytes are 1, and 4 bytes are 2.
      const length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
      at += length;
      surplus += length === 2 ? 1 : 2;
    }
    source.surplus = surplus;
    return at;
  }

  /** Validates the escape at an offset, and returns its end. */
  private readEscape(at: number, isRaw: boolean): number {
    const { bytes, source } = this;
    const letter = byteAt(bytes, at + 1);
    if (letter === LOWER_U) return this.readUnicodeEscape(at, isRaw);
    const unit = letter < 0 ? 0 : ESCAPED[letter]!;
    if (unit === 0) source.fail('unknown escape in a string', at);
    if (!isRaw) this.countEscape(at, at + 2, unit, -1);
    return at + 2;
  }

  /** Validates one \u escape, or two that form a surrogate pair, and returns the end. */
  private readUnicodeEscape(at: number, isRaw: boolean): number {
    const { bytes, source } = this;
    const unit = hex4(bytes, at + 2);
    if (unit < 0) source.fail('malformed \\u escape', at);
    let end = at + 6;
    const low = (unit & 0xfc00) === 0xd800 ? lowSurrogateAt(bytes, end) : -1;
    if (low >= 0) end += 6;
    if (isRaw) {
      if (unit === 0) this.hasNul = true;
      else if (low < 0 && (unit & 0xf800) === 0xd800) this.hasLoneSurrogate = true;
    } else {
      this.countEscape(at, end, unit, low);
    }
    return end;
  }

  private countEscape(start: number, end: number, unit: number, low: number): void {
    if (++this.escapes > 1) return;
    this.escapeStart = start;
    this.escapeEnd = end;
    this.escapeSurplus = this.source.surplus;
    this.escapeUnit = unit;
    this.escapeLow = low;
  }

  /** Adds the part to the value. */
  private endPart(to: number): void {
    const part = this.decodePart(to);
    this.value = this.value === '' ? part : this.value + part;
  }

  /** Decodes the part. JSON.parse is faster if there are at least 2 escapes. */
  private decodePart(to: number): string {
    const { bytes, source, from, fromSurplus, escapes } = this;
    if (escapes === 0) return source.slice(from, to, fromSurplus);
    if (escapes === 1) {
      const { escapeStart, escapeEnd, escapeSurplus, escapeUnit, escapeLow } = this;
      const before = source.slice(from, escapeStart, fromSurplus, escapeSurplus);
      const character =
        escapeLow < 0 ? String.fromCharCode(escapeUnit) : String.fromCharCode(escapeUnit, escapeLow);
      return before + character + source.slice(escapeEnd, to, escapeSurplus);
    }
    const isWhole = bytes[to] === QUOTE && bytes[from - 1] === QUOTE && this.value === '';
    if (isWhole) return JSON.parse(source.slice(from - 1, to + 1, fromSurplus)) as string;
    return JSON.parse(`"${source.slice(from, to, fromSurplus)}"`) as string;
  }

  private endRaw(): void {
    if (this.hasNul) this.rawProblem ??= HAS_NUL;
    if (this.hasLoneSurrogate) this.rawProblem ??= HAS_LONE_SURROGATE;
    this.hasNul = false;
    this.hasLoneSurrogate = false;
  }
}

/**
 * Returns the number that 4 hexadecimal digits represent; negative if they are not hexadecimal
 * digits.
 */
function hex4(bytes: Buffer, from: number): number {
  if (from + 4 > bytes.length) return -1;
  const high = (HEX_DIGITS[bytes[from]!]! << 12) | (HEX_DIGITS[bytes[from + 1]!]! << 8);
  return high | (HEX_DIGITS[bytes[from + 2]!]! << 4) | HEX_DIGITS[bytes[from + 3]!]!;
}

/** Returns the low surrogate that an escape at an offset represents; negative if there is none. */
function lowSurrogateAt(bytes: Buffer, from: number): number {
  if (byteAt(bytes, from) !== BACKSLASH || byteAt(bytes, from + 1) !== LOWER_U) return -1;
  const unit = hex4(bytes, from + 2);
  return (unit & 0xfc00) === 0xdc00 ? unit : -1;
}
