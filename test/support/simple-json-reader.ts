import {
  InexactNumber,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  RawJson,
  stringProblem,
} from '../../shared/contracts/json.ts';
import type { ReadJsonOptions } from '../../shared/contracts/json-reader.ts';

/**
 * Parses JSON recursively with the semantics of shared/contracts/json.ts: a short, slow reference
 * model for tests.
 */
export function readJson(bytes: Uint8Array, options: ReadJsonOptions): JsonValue {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new JsonSyntaxError('is not valid UTF-8');
  }
  return new Reader(text, options).read();
}

const DEPTH_MAX = 32;
/**
 * More values than any request can use (1000 items of at most 152 values). A value may take 30
 * times the memory of its 2 bytes of JSON, and gzip makes those bytes almost free to send.
 */
const VALUES_MAX = 250_000;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids exactly these inside strings
const PLAIN_CHARACTERS = /[^"\\\u0000-\u001f]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const HEX4 = /^[0-9a-fA-F]{4}$/;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

/**
 * Creates an object without Object.prototype, where a member named __proto__ is an ordinary member.
 * A constructor makes it several times smaller than Object.create(null), which starts as a hash
 * table.
 */
function bareObject() {}
bareObject.prototype = Object.create(null);
const BareObject = bareObject as unknown as new () => JsonObject;

/** A recursive parser over the decoded text. The depth limit bounds the recursion. */
class Reader {
  private readonly text: string;
  private readonly rawMembers: ReadonlySet<string>;
  private readonly depthMax: number;
  private readonly valuesMax: number;
  private at = 0;
  private depth = 0;
  private values = 0;
  /** First problem of a string inside the raw object being read. */
  private rawProblem: string | undefined;
  private inRaw = false;

  constructor(text: string, options: ReadJsonOptions) {
    this.text = text;
    this.rawMembers = options.rawMembers;
    this.depthMax = options.depthMax ?? DEPTH_MAX;
    this.valuesMax = options.valuesMax ?? VALUES_MAX;
  }

  read(): JsonValue {
    this.skipWhitespace();
    if (this.at === this.text.length) throw new JsonSyntaxError('is empty');
    const value = this.readValue();
    this.skipWhitespace();
    if (this.at !== this.text.length) this.fail('text after the JSON value');
    return value;
  }

  private readValue(): JsonValue {
    if (++this.values > this.valuesMax) {
      throw new JsonSyntaxError(`has more than ${this.valuesMax} values`);
    }
    switch (this.text[this.at]) {
      case '{':
        return this.readObject();
      case '[':
        return this.readArray();
      case '"':
        return this.readString();
      case 't':
        return this.readWord('true', true);
      case 'f':
        return this.readWord('false', false);
      case 'n':
        return this.readWord('null', null);
      default:
        return this.readNumber();
    }
  }

  private readObject(): JsonObject {
    const object = new BareObject();
    this.enter();
    if (!this.skipIf('}')) {
      do {
        this.skipWhitespace();
        if (this.text[this.at] !== '"') this.fail('a member name expected');
        const name = this.readString();
        this.skipWhitespace();
        if (this.text[this.at] !== ':') this.fail("':' expected");
        this.at++;
        this.skipWhitespace();
        const member = this.readMember(name);
        // Only the text of a raw object is kept.
        if (!this.inRaw) object[name] = member;
        this.skipWhitespace();
      } while (this.skipIf(','));
      if (!this.skipIf('}')) this.fail("',' or '}' expected");
    }
    this.depth--;
    return object;
  }

  private readMember(name: string): JsonValue {
    if (this.inRaw || this.text[this.at] !== '{' || !this.rawMembers.has(name)) return this.readValue();
    const start = this.at;
    this.inRaw = true;
    this.rawProblem = undefined;
    this.readObject();
    this.inRaw = false;
    return new RawJson(this.text.slice(start, this.at), this.rawProblem);
  }

  private readArray(): JsonValue[] {
    const array: JsonValue[] = [];
    this.enter();
    if (!this.skipIf(']')) {
      do {
        this.skipWhitespace();
        const item = this.readValue();
        if (!this.inRaw) array.push(item);
        this.skipWhitespace();
      } while (this.skipIf(','));
      if (!this.skipIf(']')) this.fail("',' or ']' expected");
    }
    this.depth--;
    return array;
  }

  private readString(): string {
    this.at++;
    let value = '';
    for (;;) {
      value += this.match(PLAIN_CHARACTERS);
      const next = this.text[this.at];
      if (next === '"') {
        this.at++;
        if (this.inRaw) this.rawProblem ??= stringProblem(value);
        return value;
      }
      if (next !== '\\')
        this.fail(next === undefined ? 'unfinished string' : 'control character in a string');
      value += this.readEscape();
    }
  }

  private readEscape(): string {
    const letter = this.text[this.at + 1] ?? '';
    if (letter === 'u') {
      const hex = this.text.slice(this.at + 2, this.at + 6);
      if (!HEX4.test(hex)) this.fail('malformed \\u escape');
      this.at += 6;
      return String.fromCharCode(Number.parseInt(hex, 16));
    }
    const character = Object.hasOwn(ESCAPES, letter) ? ESCAPES[letter] : undefined;
    if (character === undefined) return this.fail('unknown escape in a string');
    this.at += 2;
    return character;
  }

  private readNumber(): number | InexactNumber {
    const token = this.match(NUMBER);
    if (token === '') this.fail('a value expected');
    const value = Number(token);
    return Number.isInteger(value) && !isExactInteger(token) ? new InexactNumber(value) : value;
  }

  private readWord<T extends JsonValue>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) this.fail('a value expected');
    this.at += word.length;
    return value;
  }

  private enter(): void {
    if (++this.depth > this.depthMax) {
      throw new JsonSyntaxError(`is nested deeper than ${this.depthMax} levels`);
    }
    this.at++;
    this.skipWhitespace();
  }

  private skipIf(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  private skipWhitespace(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.at++;
    }
  }

  /** Returns what the sticky pattern matches here, possibly the empty string, and moves past it. */
  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? '';
    this.at += found.length;
    return found;
  }

  private fail(what: string): never {
    throw new JsonSyntaxError(`is not valid JSON: ${what} at character ${this.at + 1}`);
  }
}

/** Returns whether the token's decimal number is an integer. */
function isExactInteger(token: string): boolean {
  const [mantissa = '', exponent = '0'] = token.toLowerCase().split('e');
  const fraction = mantissa.split('.')[1] ?? '';
  const digits = mantissa.replace(/[-.]/g, '');
  // Digits after the decimal point once the exponent is applied.
  const behind = fraction.length - Number(exponent);
  if (behind <= 0) return true;
  return /^0*$/.test(behind >= digits.length ? digits : digits.slice(digits.length - behind));
}
