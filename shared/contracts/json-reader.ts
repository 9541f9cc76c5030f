import { type JsonObject, JsonSyntaxError, type JsonValue, RawJson } from './json.ts';
import {
  byteAt,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  isDigit,
  isWhitespace,
  LOWER_F,
  LOWER_N,
  LOWER_T,
  MINUS,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
} from './json-bytes.ts';
import { NumberReader } from './json-numbers.ts';
import { Source } from './json-source.ts';
import { StringReader } from './json-strings.ts';

export interface ReadJsonOptions {
  /** Names of the members whose object values become {@link RawJson}. */
  readonly rawMembers: ReadonlySet<string>;
  /** Maximum depth of nested arrays and objects; the outermost is 1. Default 32. */
  readonly depthMax?: number;
  /** Maximum values, including those inside raw objects. Default 250,000. */
  readonly valuesMax?: number;
  /**
   * Maximum bytes of a raw object; a larger one gets a problem instead of its text. Default: no
   * limit.
   */
  readonly rawBytesMax?: number;
}

const DEPTH_MAX = 32;
/**
 * Maximum number of values: more than any valid request needs (1000 items of at most 152 values,
 * and free-form objects). A value of two bytes can take 30 times as much memory, and gzip makes
 * such bytes almost free to send.
 */
const VALUES_MAX = 250_000;
/** Bytes that are read between two pauses. */
const STEP_BYTES = 16_384;

/** States of the reader: the next expected part of the grammar. */
const VALUE = 0;
const VALUE_OR_END = 1;
const NAME = 2;
const NAME_OR_END = 3;
const NAME_REST = 4;
const NAME_COLON = 5;
const STRING_REST = 6;
const COMMA_OR_END = 7;

/**
 * Constructs an object without Object.prototype, so that a member named __proto__ is an ordinary
 * member. Object.create(null) returns a hash table, which is several times as large.
 */
function bareObject() {
  // Constructing objects this way is faster than Object.create(null).
}
bareObject.prototype = Object.create(null);
const BareObject = bareObject as unknown as new () => JsonObject;

/**
 * An empty array for values of any type. V8 treats `[]` as an array of small integers until another
 * value is added. V8 does not inline push for arrays of several kinds.
 */
const NO_VALUES: JsonValue[] = [null];
NO_VALUES.pop();

/**
 * Reads one JSON value. {@link read} pauses about every {@link STEP_BYTES} bytes, inside strings
 * and white space too. Open arrays and objects are on a stack instead of in recursion, and nothing
 * is built inside raw objects.
 */
export class Reader {
  private readonly source: Source;
  private readonly bytes: Buffer;
  private readonly numbers: NumberReader;
  private readonly strings: StringReader;
  private readonly rawMembers: ReadonlySet<string>;
  private readonly depthMax: number;
  private readonly valuesMax: number;
  private readonly rawBytesMax: number;
  private at: number;
  private expected = VALUE;
  private values = 0;
  private result: JsonValue = null;

  /** The innermost open array or object; inside a raw object, the container of that object. */
  private container: JsonObject | JsonValue[] | undefined;
  /** The character that closes the innermost array or object; 0 at the top level. */
  private closer = 0;
  /** Name of the member of `container` that is being read. */
  private name = '';
  private readonly containers: (JsonObject | JsonValue[] | undefined)[] = [];
  private readonly closers: number[] = [];
  private readonly names: string[] = [];

  /** Nesting depth inside the raw object that is being read; 0 outside of raw objects. */
  private rawDepth = 0;
  private rawStart = 0;
  private rawSurplus = 0;

  constructor(bytes: Uint8Array, options: ReadJsonOptions) {
    this.source = new Source(bytes);
    this.bytes = this.source.bytes;
    this.numbers = new NumberReader(this.source);
    this.strings = new StringReader(this.source);
    this.rawMembers = options.rawMembers;
    this.depthMax = options.depthMax ?? DEPTH_MAX;
    this.valuesMax = options.valuesMax ?? VALUES_MAX;
    this.rawBytesMax = options.rawBytesMax ?? Number.POSITIVE_INFINITY;
    this.at = this.source.start;
  }

  *read(): Generator<undefined, JsonValue, undefined> {
    while (!this.readStep()) yield;
    return this.result;
  }

  /** Reads about {@link STEP_BYTES}. Returns true at the end of the text. */
  private readStep(): boolean {
    const { bytes } = this;
    const pauseAt = this.at + STEP_BYTES;
    const end = Math.min(pauseAt, bytes.length);
    while (this.at < pauseAt) {
      const { expected } = this;
      if (expected === STRING_REST || expected === NAME_REST) {
        this.readString(pauseAt);
        continue;
      }
      let { at } = this;
      while (at < end && isWhitespace(bytes[at]!)) at++;
      this.at = at;
      if (at >= pauseAt) break;
      const byte = byteAt(bytes, at);
      switch (expected) {
        case COMMA_OR_END:
          if (byte === COMMA && this.closer !== 0) {
            this.at++;
            this.expected = this.closer === CLOSE_BRACE ? NAME : VALUE;
          } else if (this.endContainer(byte)) {
            return true;
          }
          break;
        case VALUE_OR_END:
        case NAME_OR_END:
          if (byte === this.closer) this.endValue(this.close());
          else if (expected === NAME_OR_END) this.expected = NAME;
          else this.beginValue(byte, pauseAt);
          break;
        case NAME:
          if (byte !== QUOTE) this.source.fail('a member name expected', this.at);
          this.beginString(NAME_REST, pauseAt);
          break;
        case NAME_COLON:
          if (byte !== COLON) this.source.fail("':' expected", this.at);
          this.at++;
          this.expected = VALUE;
          break;
        default:
          this.beginValue(byte, pauseAt);
      }
    }
    return false;
  }

  /** Reads the end of an array or object. Returns true at the end of the text. */
  private endContainer(byte: number): boolean {
    const { closer, at, source } = this;
    if (closer === 0) {
      if (at !== this.bytes.length) source.fail('text after the JSON value', at);
      return true;
    }
    if (byte !== closer) source.fail(`',' or '${String.fromCharCode(closer)}' expected`, at);
    this.endValue(this.close());
    return false;
  }

  private beginValue(first: number, pauseAt: number): void {
    if (first === -1 && this.closer === 0) throw new JsonSyntaxError('is empty');
    if (++this.values > this.valuesMax) throw new JsonSyntaxError(`has more than ${this.valuesMax} values`);
    if (first === QUOTE) this.beginString(STRING_REST, pauseAt);
    else if (first === OPEN_BRACE || first === OPEN_BRACKET) this.open(first);
    else if (first === MINUS || isDigit(first)) this.readNumber();
    else this.readWord(first);
  }

  /** Adds the value to the innermost open array or object. */
  private endValue(value: JsonValue): void {
    this.expected = COMMA_OR_END;
    if (this.rawDepth !== 0) return;
    if (this.closer === CLOSE_BRACE) (this.container as JsonObject)[this.name] = value;
    else if (this.closer === CLOSE_BRACKET) (this.container as JsonValue[]).push(value);
    else this.result = value;
  }

  private open(first: number): void {
    const depth = this.closers.push(this.closer);
    if (depth > this.depthMax) throw new JsonSyntaxError(`is nested deeper than ${this.depthMax} levels`);
    if (this.rawDepth === 0) {
      if (first === OPEN_BRACE && this.closer === CLOSE_BRACE && this.rawMembers.has(this.name)) {
        this.rawDepth = depth;
        this.rawStart = this.at;
        this.rawSurplus = this.source.surplus;
        this.strings.rawProblem = undefined;
      } else {
        this.containers.push(this.container);
        this.names.push(this.name);
        this.container = first === OPEN_BRACE ? new BareObject() : NO_VALUES.slice();
      }
    }
    const isObject = first === OPEN_BRACE;
    this.closer = isObject ? CLOSE_BRACE : CLOSE_BRACKET;
    this.expected = isObject ? NAME_OR_END : VALUE_OR_END;
    this.at++;
  }

  /** Moves past the closing character, and returns the array or object that it closes. */
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
    return new RawJson(this.source.slice(rawStart, at, this.rawSurplus), this.strings.rawProblem);
  }

  private beginString(rest: number, pauseAt: number): void {
    this.expected = rest;
    this.strings.begin(this.at + 1);
    this.readString(pauseAt);
  }

  /** Reads to the end of the string, or to about `pauseAt`. */
  private readString(pauseAt: number): void {
    const { strings } = this;
    const isRaw = this.rawDepth !== 0;
    const isAtEnd = strings.read(pauseAt, isRaw);
    this.at = strings.at;
    if (!isAtEnd) return;
    if (this.expected === STRING_REST) {
      this.endValue(strings.value);
    } else {
      if (!isRaw) this.name = strings.value;
      this.expected = NAME_COLON;
    }
  }

  private readNumber(): void {
    const { numbers } = this;
    this.endValue(numbers.read(this.at, this.rawDepth !== 0));
    this.at = numbers.end;
  }

  private readWord(first: number): void {
    if (first === LOWER_T) this.endWord('true', true);
    else if (first === LOWER_F) this.endWord('false', false);
    else if (first === LOWER_N) this.endWord('null', null);
    else this.source.fail('a value expected', this.at);
  }

  private endWord(word: string, value: JsonValue): void {
    const { bytes, at } = this;
    for (let i = 1; i < word.length; i++) {
      if (byteAt(bytes, at + i) !== word.charCodeAt(i)) this.source.fail('a value expected', at);
    }
    this.at = at + word.length;
    this.endValue(value);
  }
}

function rawTooLarge(bytesMax: number): RawJson {
  const bound = bytesMax % 1024 === 0 ? `${bytesMax / 1024} KiB` : `${bytesMax} bytes`;
  return new RawJson('{}', `must be at most ${bound}`);
}
