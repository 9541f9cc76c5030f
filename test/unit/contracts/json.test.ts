import { describe, expect, it } from 'vitest';
import {
  InexactNumber,
  type JsonObject,
  JsonSyntaxError,
  NO_RAW_MEMBERS,
  RawJson,
  writeJson,
} from '../../../shared/contracts/json.ts';
import { readJson, readJsonObject } from '../../../shared/contracts/read-json.ts';

const read = (text: string | Uint8Array, raw: string[] = []) =>
  readJson(typeof text === 'string' ? Buffer.from(text) : text, { rawMembers: new Set(raw) });
const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);

describe('the JSON reader', () => {
  it.each([
    '{"a":[1,-2.5,1e3,"x",true,false,null,{"b":{}}],"":"empty name"}',
    ' \t\r\n{ "a" : [ ] , "b" : { } } ',
    '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00 ü 😀"',
    '1E+2',
    '0',
  ])('reads %s as JSON.parse does', (text) => {
    expect(JSON.parse(writeJson(read(text)))).toEqual(JSON.parse(text));
  });

  it.each([
    '',
    '   ',
    '{',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '[1,]',
    '[1 2]',
    '{a:1}',
    "{'a':1}",
    '01',
    '+1',
    '.5',
    '1.',
    '1e',
    'NaN',
    'Infinity',
    'tru',
    'nul',
    '"a',
    '"a\nb"',
    '"\\x"',
    '"\\u12g4"',
    '"\\u12"',
    '{} {}',
    '1 1',
    'undefined',
    '/* c */ 1',
    '\u00a0{}',
  ])('rejects %j, as JSON.parse does', (text) => {
    expect(() => JSON.parse(text)).toThrow();
    expect(() => read(text)).toThrow(JsonSyntaxError);
  });

  it('reports the position of an error, without any input', () => {
    expect(() => read('{"token":"s3cr3t" x}')).toThrow(
      "is not valid JSON: ',' or '}' expected at character 19",
    );
  });

  it('rejects bytes that are not UTF-8, and skips a byte order mark', () => {
    expect(() => read(Buffer.from([0x22, 0xff, 0x22]))).toThrow('is not valid UTF-8');
    expect(() => read(Buffer.from('{}', 'utf16le'))).toThrow(JsonSyntaxError);
    expect(read(Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]))).toEqual({});
  });

  it('accepts 32 levels, and rejects 33 and tens of thousands', () => {
    expect(writeJson(read(nested(32)))).toBe(nested(32));
    expect(() => read(nested(33))).toThrow('is nested deeper than 32 levels');
    expect(() => read(nested(40_000))).toThrow('is nested deeper than 32 levels');
  });

  it('accepts 250,000 values, including those inside raw objects, and rejects more', () => {
    const values = (count: number) => `[${'{},'.repeat(count - 2)}{}]`;
    expect(read(values(250_000))).toHaveLength(249_999);
    expect(() => read(values(250_001))).toThrow('has more than 250000 values');
    expect(() => read(`{"body":{"a":${values(249_998)}}}`, ['body'])).not.toThrow();
    expect(() => read(`{"body":{"a":${values(249_999)}}}`, ['body'])).toThrow('values');
    expect(() => read(`{"other":{"a":${values(300_000)}}}`, ['body'])).toThrow('values');
  });

  it('returns the last of duplicate members, including raw ones', () => {
    expect(read('{"a":1,"a":2}')).toEqual({ a: 2 });
    expect(writeJson(read('{"raw":{"a":1},"raw":{"a": 2}}', ['raw']))).toBe('{"raw":{"a": 2}}');
  });

  it('reads __proto__ as a member, and changes no prototype', () => {
    const value = read(
      '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
    ) as JsonObject;
    expect(Object.keys(value)).toEqual(['__proto__', 'constructor']);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
    expect(value.polluted).toBeUndefined();
  });

  it('keeps raw members byte for byte, large numbers and white space included', () => {
    const raw = '{ "n" : 90071992547409931234567890 , "f":1.0,"s":"\\u00fc\\ud83d\\ude00😀", "d":1, "d":2 }';
    const value = read(`{"auth":{"body":${raw},"other":{"x":1}}}`, ['body']) as { auth: JsonObject };
    expect(value.auth.body).toBeInstanceOf(RawJson);
    expect(writeJson(value)).toBe(`{"auth":{"body":${raw},"other":{"x":1}}}`);
    expect((value.auth.body as RawJson).problem).toBeUndefined();
  });

  it('keeps only objects as raw members, and checks their syntax and depth', () => {
    expect(read('{"body":[1],"b":1}', ['body', 'b'])).toEqual({ body: [1], b: 1 });
    expect(() => read('{"body":{"a":}}', ['body'])).toThrow(JsonSyntaxError);
    expect(() => read(`{"body":{"a":${nested(31)}}}`, ['body'])).toThrow('nested deeper');
  });

  it('reports strings in raw members that cannot be stored', () => {
    const problem = (raw: string) =>
      ((read(`{"body":${raw}}`, ['body']) as JsonObject).body as RawJson).problem;
    expect(problem('{"a":["x\\u0000"]}')).toBe('must not contain U+0000');
    expect(problem('{"a\\ud800":1}')).toBe('must not contain an unpaired surrogate');
    expect(problem('{"a":"\\ud83d\\ude00"}')).toBeUndefined();
  });

  it('marks numbers that only look like integers after rounding', () => {
    expect(read('1.00000000000000000001')).toEqual(new InexactNumber(1));
    expect(read('10000000000000000000.5')).toEqual(new InexactNumber(1e19));
    expect(read('1e-400')).toEqual(new InexactNumber(0));
    expect(
      ['1.0', '100e-2', '0.5', '1e3', '1.50', '0.0e5', '9007199254740993'].map((text) => read(text)),
    ).toEqual([1, 1, 0.5, 1000, 1.5, 0, 2 ** 53]);
  });

  it('discards the text of a raw object over the limit in bytes', () => {
    const raw = (text: string, rawBytesMax: number) => {
      const bytes = Buffer.from(`{"body":${text}}`);
      return (readJson(bytes, { rawMembers: new Set(['body']), rawBytesMax }) as JsonObject).body as RawJson;
    };
    expect(raw('{"a":"éé"}', 12)).toEqual(new RawJson('{"a":"éé"}'));
    expect(raw('{"a":"éé"}', 11)).toEqual(new RawJson('{}', 'must be at most 11 bytes'));
    expect(raw(`{"a":"${'x'.repeat(1024)}"}`, 1024).problem).toBe('must be at most 1 KiB');
  });

  it('rejects a number of more than 65,536 characters', () => {
    expect(read(`0.${'3'.repeat(65_534)}`)).toBe(1 / 3);
    expect(() => read(`0.${'3'.repeat(65_535)}`)).toThrow('has a number of more than 65536 characters');
    expect(() => read(`{"body":{"a":${'3'.repeat(65_537)}}}`, ['body'])).toThrow('a number of more');
  });

  it('reads strings and white space that are longer than one step', () => {
    for (const part of ['x', '\\n', '\\u00e9', '\\ud83d\\ude00', '😀', 'é', '日x', 'abc\\"', '😀\\u0041']) {
      for (const before of ['', 'a', 'ab', 'abc']) {
        const text = `[${' \n'.repeat(20_000)}"${before}${part.repeat(30_000)}"${'\t'.repeat(17_000)}]`;
        expect(read(text)).toEqual(JSON.parse(text));
        const raw = `{"body":{"${part.repeat(20_000)}":${text}}}`;
        expect(writeJson(read(raw, ['body']))).toBe(raw);
      }
    }
  });

  it('rejects any value but an object if one is required', () => {
    for (const text of ['[]', '1', 'null', '"{}"', '1.00000000000000000001']) {
      expect(() => readJsonObject(Buffer.from(text), { rawMembers: NO_RAW_MEMBERS })).toThrow(
        'must be one JSON object',
      );
    }
  });
});
