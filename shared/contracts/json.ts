/**
 * Reading and writing JSON without losing anything: free-form objects stay as the bytes they were
 * sent as, numbers are never rounded into integers, of duplicate members the last wins, and nothing
 * is looked up on Object.prototype. JSON.parse can do neither of the first two (RFC 8259).
 */
import { isAscii, isUtf8 } from 'node:buffer';

/** A free-form object, kept as the text it was sent as. */
export class RawJson {
  readonly text: string;
  /** Why a string somewhere in it cannot be stored; undefined when all can. */
  readonly problem: string | undefined;

  constructor(text: string, problem?: string) {
    this.text = text;
    this.problem = problem;
  }
}

/**
 * A number such as 1.00000000000000000001 whose double is an integer although it is none itself.
 */
export class InexactNumber {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

export type JsonValue = null | boolean | number | string | RawJson | InexactNumber | JsonValue[] | JsonObject;
export interface JsonObject {
  [member: string]: JsonValue | undefined;
}

/**
 * The bytes are not JSON as we read it. The message tells what and where, and repeats nothing of
 * the input.
 */
export class JsonSyntaxError extends Error {
  override readonly name = 'JsonSyntaxError';
}

export interface ReadJsonOptions {
  /** Names of the members whose object values become {@link RawJson}. */
  readonly rawMembers: ReadonlySet<string>;
  /** Arrays and objects within each other, the outermost counting as 1. Default 32. */
  readonly depthMax?: number;
  /** Values at most, those inside raw objects included. Default 250,000. */
  readonly valuesMax?: number;
  /**
   * Bytes of a raw object at most: a larger one gets a problem instead of its text. Default: any.
   */
  readonly rawBytesMax?: number;
}

export const NO_RAW_MEMBERS: ReadonlySet<string> = new Set();

/**
 * Reads UTF-8 bytes (a byte order mark is skipped) as one JSON value. Throws {@link
 * JsonSyntaxError}.
 */
export function readJson(bytes: Uint8Array, options: ReadJsonOptions): JsonValue {
  const reading = new Reader(bytes, options).read();
  for (;;) {
    const step = reading.next();
    if (step.done) return step.value;
  }
}

/**
 * Reads UTF-8 bytes (a byte order mark is skipped) as one JSON object. Throws {@link
 * JsonSyntaxError}.
 */
export function readJsonObject(bytes: Uint8Array, options: ReadJsonOptions): JsonObject {
  return objectOrThrow(readJson(bytes, options));
}

/**
 * As {@link readJsonObject}, in steps of well under a millisecond: a generator that returns the
 * object.
 */
export function* readJsonObjectInSteps(
  bytes: Uint8Array,
  options: ReadJsonOptions,
): Generator<undefined, JsonObject, undefined> {
  return objectOrThrow(yield* new Reader(bytes, options).read());
}

function objectOrThrow(value: JsonValue): JsonObject {
  if (!isJsonObject(value)) throw new JsonSyntaxError('must be one JSON object');
  return value;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof RawJson) &&
    !(value instanceof InexactNumber)
  );
}

/**
 * The JSON text of a value: members in their order, undefined members left out, raw objects as they
 * are.
 */
export function writeJson(value: JsonValue): string {
  if (value instanceof RawJson) return value.text;
  if (value instanceof InexactNumber) return JSON.stringify(value.value);
  if (Array.isArray(value)) return `[${value.map(writeJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  let text = '';
  for (const name of Object.keys(value)) {
    const member = value[name];
    if (member === undefined) continue;
    text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${writeJson(member)}`;
  }
  return `{${text}}`;
}

/** Why a string cannot be stored (U+0000, unpaired surrogate); undefined when it can. */
export function stringProblem(text: string): string | undefined {
  if (text.includes('\u0000')) return HAS_NUL;
  if (!text.isWellFormed()) return HAS_LONE_SURROGATE;
  return undefined;
}

const HAS_NUL = 'must not contain U+0000';
const HAS_LONE_SURROGATE = 'must not contain an unpaired surrogate';
const DEPTH_MAX = 32;
/**
 * More than any valid request needs (1000 items of at most 152 values, and free-form objects). Two
 * bytes of a body can make a value that takes 30 times as much memory, and gzip makes those two
 * bytes cost nothing to send.
 */
const VALUES_MAX = 250_000;
/**
 * Characters of a number at most. Converting a longer one to a double takes too long to do in one
 * go.
 */
const NUMBER_LENGTH_MAX = 65_536;
/** Bytes that are read between two points where the reader can pause. */
const STRETCH = 16_384;
/**
 * Characters of a string that are looked at one by one before a pattern, which is faster on long
 * runs, takes over.
 */
const SHORT_RUN = 64;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids exactly these inside strings
const PLAIN_CHARACTERS = /[^"\\\u0000-\u001f]*/y;

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const LOWER_E = 0x65;
const LOWER_F = 0x66;
const LOWER_N = 0x6e;
const LOWER_T = 0x74;
const LOWER_U = 0x75;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** Digits of which every integer is exact as a double. */
const EXACT_DIGITS = 15;
/** Powers of 10 up to this one are exact as doubles. */
const EXACT_POWER = 22;
const POWERS = Array.from({ length: EXACT_POWER + 1 }, (_, power) => Number(`1e${power}`));

/** What the reader expects next, after white space except inside a string. */
const VALUE = 0;
const VALUE_OR_END = 1;
const NAME = 2;
const NAME_OR_END = 3;
const NAME_REST = 4;
const NAME_COLON = 5;
const STRING_REST = 6;
const COMMA_OR_END = 7;

/**
 * An object without Object.prototype, where a member named __proto__ is a member like any other.
 * Made by a constructor: what Object.create(null) makes is a hash table from its first member on,
 * and several times as large.
 */
function bareObject() {}
bareObject.prototype = Object.create(null);
const BareObject = bareObject as unknown as new () => JsonObject;

/** What is wrong at a byte. To count the characters before it takes too long to do in one go. */
class Misplaced extends Error {
  readonly at: number;

  constructor(what: string, at: number) {
    super(what);
    this.at = at;
  }
}

/**
 * Reads one JSON value. {@link read} is a generator that pauses about every {@link STRETCH} bytes,
 * inside strings and white space too, so that its caller can let others run. Open arrays and
 * objects are on a stack instead of in recursion, and nothing is built inside raw objects. It scans
 * bytes, which is faster than to scan the characters of a string, and decodes only what it keeps.
 */
class Reader {
  private readonly bytes: Buffer;
  private readonly rawMembers: ReadonlySet<string>;
  private readonly depthMax: number;
  private readonly valuesMax: number;
  private readonly rawBytesMax: number;
  /** The bytes as text where all are ASCII: a slice of it costs less than one that is decoded. */
  private asciiText: string | undefined;
  /** Where the text begins, after a byte order mark. */
  private start = 0;
  private at = 0;
  private expected = VALUE;
  private values = 0;
  private result: JsonValue = null;

  /** The innermost open array or object; inside a raw object the one around that. */
  private container: JsonObject | JsonValue[] | undefined;
  /** The character that closes the innermost array or object; 0 outside of all. */
  private closer = 0;
  /** Name of the member of `container` that is being read. */
  private name = '';
  private readonly containers: (JsonObject | JsonValue[] | undefined)[] = [];
  private readonly closers: number[] = [];
  private readonly names: string[] = [];

  /** Depth of the raw object that is being read; 0 outside of one. */
  private rawDepth = 0;
  private rawStart = 0;
  /** First problem of a string inside the raw object. */
  private rawProblem: string | undefined;

  /** The string that is being read: what is decoded of it, and where the rest begins. */
  private string = '';
  private stringFrom = 0;
  /**
   * Escapes since `stringFrom` (a surrogate pair is one), and the first of them: where it begins
   * and ends, its text.
   */
  private escapes = 0;
  private escapeAt = 0;
  private escapeEnd = 0;
  private escapeText = '';
  private stringHasNul = false;
  private stringHasLoneSurrogate = false;

  constructor(bytes: Uint8Array, options: ReadJsonOptions) {
    this.bytes = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.rawMembers = options.rawMembers;
    this.depthMax = options.depthMax ?? DEPTH_MAX;
    this.valuesMax = options.valuesMax ?? VALUES_MAX;
    this.rawBytesMax = options.rawBytesMax ?? Number.POSITIVE_INFINITY;
  }

  *read(): Generator<undefined, JsonValue, undefined> {
    const { bytes } = this;
    if (!isUtf8(bytes)) throw new JsonSyntaxError('is not valid UTF-8');
    if (isAscii(bytes)) this.asciiText = bytes.toString('latin1');
    else if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) this.start = 3;
    this.at = this.start;
    try {
      while (!this.readStretch()) yield;
      return this.result;
    } catch (error) {
      if (!(error instanceof Misplaced)) throw error;
      let characters = 0;
      for (let from = this.start; from < error.at; from += STRETCH) {
        characters += charactersOf(bytes, from, Math.min(from + STRETCH, error.at));
        yield;
      }
      throw new JsonSyntaxError(`is not valid JSON: ${error.message} at character ${characters + 1}`);
    }
  }

  /** Reads on for about {@link STRETCH} bytes; true at the end of the text. */
  private readStretch(): boolean {
    const { bytes } = this;
    const pauseAt = this.at + STRETCH;
    while (this.at < pauseAt) {
      const { expected } = this;
      if (expected === STRING_REST || expected === NAME_REST) {
        this.readString(pauseAt);
        continue;
      }
      const byte = byteAt(bytes, this.at);
      if (isWhitespace(byte)) {
        this.at = whitespaceEnd(bytes, this.at + 1, pauseAt);
        continue;
      }
      switch (expected) {
        case COMMA_OR_END:
          if (this.closer === 0) {
            if (this.at !== bytes.length) this.fail('text after the JSON value');
            return true;
          }
          if (byte === COMMA) {
            this.at++;
            this.expected = this.closer === CLOSE_BRACE ? NAME : VALUE;
          } else if (byte === this.closer) {
            this.endValue(this.close());
          } else {
            this.fail(`',' or '${String.fromCharCode(this.closer)}' expected`);
          }
          break;
        case VALUE_OR_END:
        case NAME_OR_END:
          if (byte === this.closer) this.endValue(this.close());
          else this.expected = expected === NAME_OR_END ? NAME : VALUE;
          break;
        case NAME:
          if (byte !== QUOTE) this.fail('a member name expected');
          this.beginString(NAME_REST);
          break;
        case NAME_COLON:
          if (byte !== COLON) this.fail("':' expected");
          this.at++;
          this.expected = VALUE;
          break;
        default:
          this.beginValue(byte);
      }
    }
    return false;
  }

  private beginValue(first: number): void {
    if (first === -1 && this.closer === 0) throw new JsonSyntaxError('is empty');
    this.countValue();
    if (first === QUOTE) this.beginString(STRING_REST);
    else if (first === OPEN_BRACE || first === OPEN_BRACKET) this.open(first);
    else this.endValue(this.readScalar(first));
  }

  /** Adds the value to the innermost open array or object. */
  private endValue(value: JsonValue): void {
    this.expected = COMMA_OR_END;
    if (this.rawDepth !== 0) return;
    if (this.closer === CLOSE_BRACE) (this.container as JsonObject)[this.name] = value;
    else if (this.closer === CLOSE_BRACKET) (this.container as JsonValue[]).push(value);
    else this.result = value;
  }

  private countValue(): void {
    if (++this.values > this.valuesMax) throw new JsonSyntaxError(`has more than ${this.valuesMax} values`);
  }

  private open(first: number): void {
    const depth = this.closers.push(this.closer);
    if (depth > this.depthMax) throw new JsonSyntaxError(`is nested deeper than ${this.depthMax} levels`);
    if (this.rawDepth === 0) {
      if (first === OPEN_BRACE && this.closer === CLOSE_BRACE && this.rawMembers.has(this.name)) {
        this.rawDepth = depth;
        this.rawStart = this.at;
        this.rawProblem = undefined;
      } else {
        this.containers.push(this.container);
        this.names.push(this.name);
        this.container = first === OPEN_BRACE ? new BareObject() : [];
      }
    }
    const isObject = first === OPEN_BRACE;
    this.closer = isObject ? CLOSE_BRACE : CLOSE_BRACKET;
    this.expected = isObject ? NAME_OR_END : VALUE_OR_END;
    this.at++;
  }

  /** Moves past the closing character, and returns what it closes. */
  private close(): JsonValue {
    this.at++;
    const depth = this.closers.length;
    this.closer = this.closers.pop()!;
    if (this.rawDepth === 0) {
      const value = this.container!;
      this.container = this.containers.pop();
      this.name = this.names.pop()!;
      return value;
    }
    if (depth !== this.rawDepth) return null;
    this.rawDepth = 0;
    const { rawStart, at, rawBytesMax } = this;
    if (at - rawStart > rawBytesMax) return rawTooLarge(rawBytesMax);
    return new RawJson(this.decode(rawStart, at), this.rawProblem);
  }

  private beginString(rest: number): void {
    this.expected = rest;
    this.at++;
    this.string = '';
    this.stringFrom = this.at;
    this.escapes = 0;
  }

  /** Reads on to the end of the string, or to about `pauseAt`. */
  private readString(pauseAt: number): void {
    const { bytes } = this;
    const end = Math.min(pauseAt, bytes.length);
    let { at } = this;
    const longAt = at + SHORT_RUN;
    while (at < end) {
      const byte = bytes[at]!;
      if (byte > BACKSLASH || (byte >= SPACE && byte !== QUOTE && byte !== BACKSLASH)) {
        at++;
        if (at === longAt && this.asciiText !== undefined) at = plainEnd(this.asciiText, at, end);
      } else if (byte === BACKSLASH) {
        at = this.readEscape(at);
      } else {
        this.at = at;
        if (byte < SPACE) this.fail('control character in a string');
        this.endString();
        return;
      }
    }
    // Not inside a character.
    while ((byteAt(bytes, at) & 0xc0) === 0x80) at++;
    this.at = at;
    if (at >= bytes.length) this.fail('unfinished string');
    if (this.rawDepth === 0) this.decodeString();
  }

  private endString(): void {
    if (this.rawDepth === 0) {
      this.decodeString();
    } else if (this.escapes > 0) {
      if (this.stringHasNul) this.rawProblem ??= HAS_NUL;
      if (this.stringHasLoneSurrogate) this.rawProblem ??= HAS_LONE_SURROGATE;
      this.stringHasNul = false;
      this.stringHasLoneSurrogate = false;
    }
    this.at++;
    if (this.expected === STRING_REST) {
      this.endValue(this.string);
    } else {
      if (this.rawDepth === 0) this.name = this.string;
      this.expected = NAME_COLON;
    }
  }

  /** Adds what was read since the last time to the string. */
  private decodeString(): void {
    const part = this.decodePart();
    this.string = this.string === '' ? part : this.string + part;
    this.stringFrom = this.at;
    this.escapes = 0;
  }

  private decodePart(): string {
    const { bytes, stringFrom, at } = this;
    if (this.escapes === 0) return this.decode(stringFrom, at);
    if (this.escapes === 1) {
      const before = this.decode(stringFrom, this.escapeAt);
      return before + this.escapeText + this.decode(this.escapeEnd, at);
    }
    const isWhole = bytes[at] === QUOTE && bytes[stringFrom - 1] === QUOTE && this.string === '';
    return JSON.parse(isWhole ? this.decode(stringFrom - 1, at + 1) : `"${this.decode(stringFrom, at)}"`);
  }

  /** Checks the escape there, and returns where it ends. */
  private readEscape(at: number): number {
    const { bytes } = this;
    const letter = byteAt(bytes, at + 1);
    let unit: number;
    let end = at + 2;
    if (letter === LOWER_U) {
      unit = hex4(bytes, end);
      if (unit < 0) this.failAt(at, 'malformed \\u escape');
      end = at + 6;
    } else {
      unit = letter >= 0 && letter < 128 ? ESCAPED[letter]! : 0;
      if (unit === 0) this.failAt(at, 'unknown escape in a string');
    }
    const low = (unit & 0xfc00) === 0xd800 ? lowSurrogateAt(bytes, end) : -1;
    if (low >= 0) end += 6;
    this.escapes++;
    if (this.rawDepth !== 0) {
      if (letter === LOWER_U && unit === 0) this.stringHasNul = true;
      if (low < 0 && (unit & 0xf800) === 0xd800) this.stringHasLoneSurrogate = true;
    } else if (this.escapes === 1) {
      this.escapeAt = at;
      this.escapeEnd = end;
      this.escapeText = low < 0 ? String.fromCharCode(unit) : String.fromCharCode(unit, low);
    }
    return end;
  }

  private readScalar(first: number): JsonValue {
    if (first === MINUS || isDigit(first)) return this.readNumber();
    if (first === LOWER_T) return this.readWord('true', true);
    if (first === LOWER_F) return this.readWord('false', false);
    if (first === LOWER_N) return this.readWord('null', null);
    return this.fail('a value expected');
  }

  private readWord(word: string, value: JsonValue): JsonValue {
    for (let i = 1; i < word.length; i++) {
      if (byteAt(this.bytes, this.at + i) !== word.charCodeAt(i)) this.fail('a value expected');
    }
    this.at += word.length;
    return value;
  }

  private readNumber(): JsonValue {
    const { bytes, at: start } = this;
    let at = start;
    const negative = byteAt(bytes, at) === MINUS;
    if (negative) at++;
    const wholeAt = at;
    let code = byteAt(bytes, at);
    if (!isDigit(code)) this.fail('a value expected');
    // The first digits as an integer; a number with more than these is not read from it.
    let mantissa = 0;
    let mantissaEnd = at + EXACT_DIGITS + 1;
    if (code === ZERO) {
      // Digits after a leading zero are no part of the number.
      at++;
    } else {
      for (; at < mantissaEnd && isDigit(code); code = byteAt(bytes, ++at))
        mantissa = mantissa * 10 + code - ZERO;
      if (at === mantissaEnd) at = digitsEnd(bytes, at);
    }
    const wholeEnd = at;
    let fractionAt = at;
    if (byteAt(bytes, at) === DOT && isDigit(byteAt(bytes, at + 1))) {
      fractionAt = ++at;
      mantissaEnd = at + EXACT_DIGITS + 1;
      code = byteAt(bytes, at);
      for (; at < mantissaEnd && isDigit(code); code = byteAt(bytes, ++at))
        mantissa = mantissa * 10 + code - ZERO;
      if (at === mantissaEnd) at = digitsEnd(bytes, at);
    }
    let fractionEnd = at;
    let exponent = 0;
    if ((byteAt(bytes, at) | 0x20) === LOWER_E) {
      const sign = byteAt(bytes, at + 1);
      const digitsAt = sign === PLUS || sign === MINUS ? at + 2 : at + 1;
      if (isDigit(byteAt(bytes, digitsAt))) {
        at = digitsAt;
        for (code = byteAt(bytes, at); isDigit(code); code = byteAt(bytes, ++at)) {
          exponent = exponent * 10 + code - ZERO;
        }
        if (sign === MINUS) exponent = -exponent;
      }
    }
    if (at - start > NUMBER_LENGTH_MAX) {
      throw new JsonSyntaxError(`has a number of more than ${NUMBER_LENGTH_MAX} characters`);
    }
    this.at = at;
    if (this.rawDepth !== 0) return null;
    if (wholeEnd - wholeAt + fractionEnd - fractionAt > EXACT_DIGITS && fractionEnd > fractionAt) {
      // Zeros at the end of the fraction change nothing.
      while (fractionEnd > fractionAt && bytes[fractionEnd - 1] === ZERO) fractionEnd--;
      if (wholeEnd - wholeAt + fractionEnd - fractionAt <= EXACT_DIGITS)
        mantissa = mantissaOf(bytes, wholeAt, wholeEnd, fractionAt, fractionEnd);
    }
    const fractionDigits = fractionEnd - fractionAt;
    const power = exponent - fractionDigits;
    const digits = wholeEnd - wholeAt + fractionDigits;
    if (digits <= EXACT_DIGITS && power <= EXACT_POWER && power >= -EXACT_POWER) {
      // Both are exact as doubles, so what one operation makes of them is rounded right.
      const value = power < 0 ? mantissa / POWERS[-power]! : mantissa * POWERS[power]!;
      return negative ? -value : value;
    }
    const value = Number(this.decode(start, at));
    if (power >= 0 || !Number.isInteger(value)) return value;
    return zerosEnd(bytes, wholeAt, wholeEnd, fractionEnd, -power) ? value : new InexactNumber(value);
  }

  /** The text of the bytes from `from` to `to`, between whole characters. */
  private decode(from: number, to: number): string {
    if (from === to) return '';
    return this.asciiText === undefined
      ? this.bytes.toString('utf8', from, to)
      : this.asciiText.slice(from, to);
  }

  private fail(what: string): never {
    return this.failAt(this.at, what);
  }

  private failAt(at: number, what: string): never {
    throw new Misplaced(what, at);
  }
}

/** What a letter means after a backslash, both as code units; 0 where nothing. */
const ESCAPED = new Uint8Array(128);
for (const [letter, meaning] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t']) {
  ESCAPED[letter!.charCodeAt(0)] = meaning!.charCodeAt(0);
}

/**
 * Where the characters end that need no look: at a quote, backslash or control character, or at
 * `end`.
 */
function plainEnd(text: string, from: number, end: number): number {
  PLAIN_CHARACTERS.lastIndex = 0;
  PLAIN_CHARACTERS.test(text.slice(from, end));
  return from + PLAIN_CHARACTERS.lastIndex;
}

function whitespaceEnd(bytes: Buffer, from: number, pauseAt: number): number {
  let at = from;
  const end = Math.min(pauseAt, bytes.length);
  while (at < end && isWhitespace(bytes[at]!)) at++;
  return at;
}

/** UTF-16 code units of the text from `from` to `to`. */
function charactersOf(bytes: Buffer, from: number, to: number): number {
  let count = 0;
  for (let at = from; at < to; at++) {
    const byte = bytes[at]!;
    if ((byte & 0xc0) !== 0x80) count += byte >= 0xf0 ? 2 : 1;
  }
  return count;
}

/**
 * The byte there; -1 past the end. (To read past the end of an array makes all reading of it
 * slower.)
 */
function byteAt(bytes: Buffer, at: number): number {
  return at < bytes.length ? bytes[at]! : -1;
}

function mantissaOf(
  bytes: Buffer,
  wholeAt: number,
  wholeEnd: number,
  fractionAt: number,
  fractionEnd: number,
): number {
  let mantissa = 0;
  for (let at = wholeAt; at < fractionEnd; at++) {
    if (at < wholeEnd || at >= fractionAt) mantissa = mantissa * 10 + bytes[at]! - ZERO;
  }
  return mantissa;
}

function digitsEnd(bytes: Buffer, from: number): number {
  let at = from;
  while (isDigit(byteAt(bytes, at))) at++;
  return at;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

function isWhitespace(code: number): boolean {
  return code === SPACE || code === LINE_FEED || code === CARRIAGE_RETURN || code === TAB;
}

/** The number that four hexadecimal digits spell; negative where they are none. */
function hex4(bytes: Buffer, from: number): number {
  let value = 0;
  for (let at = from; at < from + 4; at++) {
    const code = byteAt(bytes, at);
    const letter = code | 0x20;
    if (isDigit(code)) value = value * 16 + (code - ZERO);
    else if (letter >= 0x61 && letter <= 0x66) value = value * 16 + (letter - 0x57);
    else return -1;
  }
  return value;
}

/** The low surrogate that an escape there spells; negative where none does. */
function lowSurrogateAt(bytes: Buffer, from: number): number {
  if (byteAt(bytes, from) !== BACKSLASH || byteAt(bytes, from + 1) !== LOWER_U) return -1;
  const unit = hex4(bytes, from + 2);
  return (unit & 0xfc00) === 0xdc00 ? unit : -1;
}

function rawTooLarge(bytesMax: number): RawJson {
  const bound = bytesMax % 1024 === 0 ? `${bytesMax / 1024} KiB` : `${bytesMax} bytes`;
  return new RawJson('{}', `must be at most ${bound}`);
}

/**
 * Whether the last `count` digits of a decimal are all 0. The whole digits are from `wholeAt` to
 * `wholeEnd`; those of the fraction, if any, follow the point and end at `fractionEnd`. More digits
 * than there are count as 0.
 */
function zerosEnd(
  bytes: Buffer,
  wholeAt: number,
  wholeEnd: number,
  fractionEnd: number,
  count: number,
): boolean {
  let left = count;
  for (let at = fractionEnd - 1; at >= wholeAt && left > 0; at--) {
    if (at === wholeEnd) continue;
    if (byteAt(bytes, at) !== ZERO) return false;
    left--;
  }
  return true;
}
