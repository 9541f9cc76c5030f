/**
 * Reading and writing JSON without losing anything: free-form objects stay as the bytes they were sent as, numbers are
 * never rounded into integers, of duplicate members the last wins, and nothing is looked up on Object.prototype.
 * JSON.parse can do neither of the first two (RFC 8259).
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

/** A number such as 1.00000000000000000001 whose double is an integer although it is none itself. */
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

/** The bytes are not JSON as we read it. The message tells what and where, and repeats nothing of the input. */
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
  /** Bytes of a raw object at most: a larger one gets a problem instead of its text. Default: any. */
  readonly rawBytesMax?: number;
}

export const NO_RAW_MEMBERS: ReadonlySet<string> = new Set();

/** Reads UTF-8 bytes (a byte order mark is skipped) as one JSON value. Throws {@link JsonSyntaxError}. */
export function readJson(bytes: Uint8Array, options: ReadJsonOptions): JsonValue {
  const reading = new Reader(bytes, options).read();
  for (;;) {
    const step = reading.next();
    if (step.done) return step.value;
  }
}

/** Reads UTF-8 bytes (a byte order mark is skipped) as one JSON object. Throws {@link JsonSyntaxError}. */
export function readJsonObject(bytes: Uint8Array, options: ReadJsonOptions): JsonObject {
  return objectOrThrow(readJson(bytes, options));
}

/** As {@link readJsonObject}, in steps of well under a millisecond: a generator that returns the object. */
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

/** The JSON text of a value: members in their order, undefined members left out, raw objects as they are. */
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
 * More than any valid request needs (1000 items of at most 152 values, and free-form objects). Two bytes of a body can
 * make a value that takes 30 times as much memory, and gzip makes those two bytes cost nothing to send.
 */
const VALUES_MAX = 250_000;
/** Characters of a number at most. Converting a longer one to a double takes too long to do in one go. */
const NUMBER_LENGTH_MAX = 65_536;
/** Characters that are read between two points where the reader can pause. */
const STRETCH = 16_384;
/** Characters of a run that are looked at one by one before a pattern, which is faster on long runs, takes over. */
const SHORT_RUN = 32;

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

// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids exactly these inside strings
const PLAIN_CHARACTERS = /[^"\\\u0000-\u001f]*/y;
const WHITESPACE = /[ \t\n\r]*/y;
/** Digits of which every integer is exact as a double. */
const EXACT_DIGITS = 15;
/** Powers of 10 up to this one are exact as doubles. */
const EXACT_POWER = 22;
const POWERS = Array.from({ length: EXACT_POWER + 1 }, (_, power) => Number(`1e${power}`));
/** Escapes of a string that are resolved one by one before JSON.parse, which is faster on many, takes over. */
const FEW_ESCAPES = 8;

/**
 * An object without Object.prototype, where a member named __proto__ is a member like any other. Made by a constructor:
 * what Object.create(null) makes is a hash table from its first member on, and several times as large.
 */
function bareObject() {}
bareObject.prototype = Object.create(null);
const BareObject = bareObject as unknown as new () => JsonObject;

/**
 * Reads one JSON value. {@link read} is a generator that pauses about every {@link STRETCH} characters, inside strings and
 * white space too, so that whoever runs it can let others run. Arrays and objects that are open stand on a stack instead
 * of in recursion, and nothing is built inside raw objects.
 */
class Reader {
  private readonly bytes: Buffer;
  private readonly rawMembers: ReadonlySet<string>;
  private readonly depthMax: number;
  private readonly valuesMax: number;
  private readonly rawBytesMax: number;
  private text = '';
  private at = 0;
  private pauseAt = STRETCH;
  private values = 0;

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
  /** Escapes of the string since `stringFrom` was last set by a pause. */
  private escapes = 0;
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
    this.text = yield* decodeUtf8(this.bytes);
    const { text } = this;
    while (!this.skipWhitespace()) yield;
    if (this.at === text.length) throw new JsonSyntaxError('is empty');
    for (;;) {
      if (this.at >= this.pauseAt) {
        this.pauseAt = this.at + STRETCH;
        yield;
      }
      let value: JsonValue;
      const first = codeAt(text, this.at);
      this.countValue();
      if (first === OPEN_BRACE || first === OPEN_BRACKET) {
        this.open(first);
        while (!this.skipWhitespace()) yield;
        if (codeAt(text, this.at) !== this.closer) {
          if (first === OPEN_BRACE) {
            this.beginName();
            while (!this.readString()) yield;
            while (!this.skipWhitespace()) yield;
            this.endName();
            while (!this.skipWhitespace()) yield;
          }
          continue;
        }
        value = this.close();
      } else if (first === QUOTE) {
        this.beginString();
        while (!this.readString()) yield;
        value = this.string;
      } else {
        value = this.readScalar(first);
      }
      // Adds the value to what it is in, and closes what ends after it.
      for (;;) {
        while (!this.skipWhitespace()) yield;
        if (this.closer === 0) {
          if (this.at !== text.length) this.fail('text after the JSON value');
          return value;
        }
        this.add(value);
        const next = codeAt(text, this.at);
        if (next === COMMA) break;
        if (next !== this.closer) this.fail(`',' or '${String.fromCharCode(this.closer)}' expected`);
        value = this.close();
      }
      this.at++;
      while (!this.skipWhitespace()) yield;
      if (this.closer === CLOSE_BRACE) {
        this.beginName();
        while (!this.readString()) yield;
        while (!this.skipWhitespace()) yield;
        this.endName();
        while (!this.skipWhitespace()) yield;
      }
    }
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
    this.closer = first === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET;
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
    const text = this.text.slice(rawStart, at);
    if (rawBytesMax < 3 * text.length && Buffer.byteLength(text) > rawBytesMax)
      return rawTooLarge(rawBytesMax);
    return new RawJson(text, this.rawProblem);
  }

  private add(value: JsonValue): void {
    if (this.rawDepth !== 0) return;
    if (this.closer === CLOSE_BRACE) (this.container as JsonObject)[this.name] = value;
    else (this.container as JsonValue[]).push(value);
  }

  private beginName(): void {
    if (codeAt(this.text, this.at) !== QUOTE) this.fail('a member name expected');
    this.beginString();
  }

  private endName(): void {
    if (codeAt(this.text, this.at) !== COLON) this.fail("':' expected");
    this.at++;
    if (this.rawDepth === 0) this.name = this.string;
  }

  private beginString(): void {
    this.at++;
    this.string = '';
    this.stringFrom = this.at;
    this.escapes = 0;
  }

  /** Reads on to the end of the string; false where it pauses before. */
  private readString(): boolean {
    const { text } = this;
    const pauseAt = this.at + STRETCH;
    for (;;) {
      this.at = plainEnd(text, this.at, pauseAt);
      const code = codeAt(text, this.at);
      if (code === QUOTE) {
        this.endString();
        return true;
      }
      if (code === BACKSLASH) this.readEscape();
      else if (code < SPACE) {
        this.fail(this.at === text.length ? 'unfinished string' : 'control character in a string');
      }
      if (this.at >= pauseAt) {
        if (this.rawDepth === 0) this.decodeString();
        return false;
      }
    }
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
  }

  /** Adds what was read since the last time to the string. */
  private decodeString(): void {
    const part = this.text.slice(this.stringFrom, this.at);
    const decoded = this.escapes > FEW_ESCAPES ? (JSON.parse(`"${part}"`) as string) : part;
    this.string = this.string === '' ? decoded : this.string + decoded;
    this.stringFrom = this.at;
    this.escapes = 0;
  }

  private readEscape(): void {
    const { text, at } = this;
    const letter = codeAt(text, at + 1);
    let unit: number;
    if (letter === LOWER_U) {
      unit = hex4(text, at + 2);
      if (unit < 0) this.fail('malformed \\u escape');
      this.at = at + 6;
    } else {
      unit = letter < 128 ? ESCAPED[letter]! : 0;
      if (!(unit > 0)) this.fail('unknown escape in a string');
      this.at = at + 2;
    }
    if (this.rawDepth !== 0) {
      this.escapes = 1;
      if (letter === LOWER_U) this.checkRawUnit(unit);
    } else if (++this.escapes <= FEW_ESCAPES) {
      this.string += text.slice(this.stringFrom, at) + String.fromCharCode(unit);
      this.stringFrom = this.at;
    }
  }

  /** Notes what cannot be stored in a string of a raw object; moves past the second escape of a surrogate pair. */
  private checkRawUnit(unit: number): void {
    if (unit === 0) this.stringHasNul = true;
    if ((unit & 0xf800) !== 0xd800) return;
    const { text, at } = this;
    const isPair =
      unit < 0xdc00 &&
      codeAt(text, at) === BACKSLASH &&
      codeAt(text, at + 1) === LOWER_U &&
      (hex4(text, at + 2) & 0xfc00) === 0xdc00;
    if (isPair) this.at = at + 6;
    else this.stringHasLoneSurrogate = true;
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
      if (codeAt(this.text, this.at + i) !== word.charCodeAt(i)) this.fail('a value expected');
    }
    this.at += word.length;
    return value;
  }

  private readNumber(): JsonValue {
    const { text, at: start } = this;
    let at = start;
    const negative = codeAt(text, at) === MINUS;
    if (negative) at++;
    const wholeAt = at;
    let code = codeAt(text, at);
    if (!isDigit(code)) this.fail('a value expected');
    // The first digits as an integer; a number with more than these is not read from it.
    let mantissa = 0;
    let mantissaEnd = at + EXACT_DIGITS + 1;
    if (code === ZERO) {
      // Digits after a leading zero are no part of the number.
      at++;
    } else {
      for (; at < mantissaEnd && isDigit(code); code = codeAt(text, ++at))
        mantissa = mantissa * 10 + code - ZERO;
      if (at === mantissaEnd) at = digitsEnd(text, at);
    }
    const wholeEnd = at;
    let fractionAt = at;
    if (codeAt(text, at) === DOT && isDigit(codeAt(text, at + 1))) {
      fractionAt = ++at;
      mantissaEnd = at + EXACT_DIGITS + 1;
      code = codeAt(text, at);
      for (; at < mantissaEnd && isDigit(code); code = codeAt(text, ++at))
        mantissa = mantissa * 10 + code - ZERO;
      if (at === mantissaEnd) at = digitsEnd(text, at);
    }
    const fractionEnd = at;
    let exponent = 0;
    if ((codeAt(text, at) | 0x20) === LOWER_E) {
      const sign = codeAt(text, at + 1);
      const digitsAt = sign === PLUS || sign === MINUS ? at + 2 : at + 1;
      if (isDigit(codeAt(text, digitsAt))) {
        at = digitsAt;
        for (code = codeAt(text, at); isDigit(code); code = codeAt(text, ++at)) {
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
    const fractionDigits = fractionEnd - fractionAt;
    const power = exponent - fractionDigits;
    const digits = wholeEnd - wholeAt + fractionDigits;
    if (digits <= EXACT_DIGITS && power <= EXACT_POWER && power >= -EXACT_POWER) {
      // Both are exact as doubles, so what one operation makes of them is rounded right.
      const value = power < 0 ? mantissa / POWERS[-power]! : mantissa * POWERS[power]!;
      return negative ? -value : value;
    }
    const value = Number(text.slice(start, at));
    if (power >= 0 || !Number.isInteger(value)) return value;
    return zerosEnd(text, wholeAt, wholeEnd, fractionEnd, -power) ? value : new InexactNumber(value);
  }

  /** Moves past white space; false where it pauses before its end. */
  private skipWhitespace(): boolean {
    const { text } = this;
    if (!isWhitespace(codeAt(text, this.at))) return true;
    const pauseAt = this.at + STRETCH;
    this.at = whitespaceEnd(text, this.at + 1, pauseAt);
    return this.at < pauseAt;
  }

  private fail(what: string): never {
    throw new JsonSyntaxError(`is not valid JSON: ${what} at character ${this.at + 1}`);
  }
}

/** What a letter means after a backslash, both as code units; 0 where nothing. */
const ESCAPED = new Uint8Array(128);
for (const [letter, meaning] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t']) {
  ESCAPED[letter!.charCodeAt(0)] = meaning!.charCodeAt(0);
}

/** The text of UTF-8 bytes without a byte order mark. Throws {@link JsonSyntaxError}. */
function* decodeUtf8(bytes: Buffer): Generator<undefined, string, undefined> {
  if (!isUtf8(bytes)) throw new JsonSyntaxError('is not valid UTF-8');
  let from = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  if (isAscii(bytes)) return bytes.toString('latin1');
  if (bytes.length - from <= STRETCH) return bytes.toString('utf8', from);
  const parts: string[] = [];
  while (from < bytes.length) {
    let to = Math.min(from + STRETCH, bytes.length);
    // Not inside a character.
    while (to < bytes.length && (bytes[to]! & 0xc0) === 0x80) to++;
    parts.push(bytes.toString('utf8', from, to));
    from = to;
    yield;
  }
  // Unlike what `+` makes, this is one flat string.
  return parts.join('');
}

/** Where the characters that need no look end: at a quote, backslash or control character, or soon after `pauseAt`. */
function plainEnd(text: string, from: number, pauseAt: number): number {
  const shortEnd = from + SHORT_RUN;
  let at = from;
  for (; at < shortEnd; at++) {
    const code = codeAt(text, at);
    if (code === QUOTE || code === BACKSLASH || code < SPACE) return at;
  }
  return at + matchLength(PLAIN_CHARACTERS, text.slice(at, Math.max(at, pauseAt)));
}

function whitespaceEnd(text: string, from: number, pauseAt: number): number {
  const shortEnd = Math.min(from + SHORT_RUN, text.length);
  let at = from;
  for (; at < shortEnd; at++) {
    const code = text.charCodeAt(at);
    if (code > SPACE || !isWhitespace(code)) return at;
  }
  if (at === text.length) return at;
  return at + matchLength(WHITESPACE, text.slice(at, Math.max(at, pauseAt)));
}

function matchLength(pattern: RegExp, text: string): number {
  pattern.lastIndex = 0;
  pattern.test(text);
  return pattern.lastIndex;
}

/** The code unit there; -1 past the end. (charCodeAt itself is slow for good once it was asked past the end.) */
function codeAt(text: string, at: number): number {
  return at < text.length ? text.charCodeAt(at) : -1;
}

function digitsEnd(text: string, from: number): number {
  let at = from;
  while (isDigit(codeAt(text, at))) at++;
  return at;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

function isWhitespace(code: number): boolean {
  return code === SPACE || code === LINE_FEED || code === CARRIAGE_RETURN || code === TAB;
}

/** The number that four hexadecimal digits spell; negative where they are none. */
function hex4(text: string, from: number): number {
  let value = 0;
  for (let at = from; at < from + 4; at++) {
    const code = codeAt(text, at);
    const letter = code | 0x20;
    if (isDigit(code)) value = value * 16 + (code - ZERO);
    else if (letter >= 0x61 && letter <= 0x66) value = value * 16 + (letter - 0x57);
    else return -1;
  }
  return value;
}

function rawTooLarge(bytesMax: number): RawJson {
  const bound = bytesMax % 1024 === 0 ? `${bytesMax / 1024} KiB` : `${bytesMax} bytes`;
  return new RawJson('{}', `must be at most ${bound}`);
}

/**
 * Whether the last `count` digits of a decimal are all 0. The whole digits are from `wholeAt` to `wholeEnd`; those of the
 * fraction, if any, follow the point and end at `fractionEnd`. More digits than there are count as 0.
 */
function zerosEnd(
  text: string,
  wholeAt: number,
  wholeEnd: number,
  fractionEnd: number,
  count: number,
): boolean {
  let left = count;
  for (let at = fractionEnd - 1; at >= wholeAt && left > 0; at--) {
    if (at === wholeEnd) continue;
    if (codeAt(text, at) !== ZERO) return false;
    left--;
  }
  return true;
}
