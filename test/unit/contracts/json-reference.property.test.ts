import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonSyntaxError, type JsonValue, writeJson } from '../../../shared/contracts/json.ts';
import { readJson } from '../../../shared/contracts/read-json.ts';
import * as simple from '../../support/simple-json-reader.ts';

const RAW: ReadonlySet<string> = new Set(['raw']);

/**
 * Fragments whose combinations reach every rule of the reader: duplicates, depth, escapes,
 * surrogates, NUL, numbers.
 */
const PIECES = [
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '"raw":{',
  '"raw":',
  '"a":',
  '"a"',
  '"\\u0000"',
  '"\\ud800"',
  '"\\ude00\\ud83d\\ude00"',
  '"\\ud83d\\ud83d\\ude00x"',
  '"\\n\\"\\\\/"',
  '"é日😀"',
  '"__proto__":',
  '0',
  '-0',
  '-',
  '01',
  '1.0',
  '1.5e3',
  '1e-400',
  '1e400',
  '123456789012345678',
  '9007199254740993.0',
  '0.1e1',
  '12345.678e-2',
  '10e-1',
  '1.',
  '1e',
  'true',
  'nul',
  'null',
  ' ',
  '\n\t',
  '\ufeff',
  '\0',
];
const nearJson = fc.oneof(
  fc.array(fc.constantFrom(...PIECES), { maxLength: 14 }).map((parts) => parts.join('')),
  fc.json(),
  fc.tuple(fc.json(), fc.json(), fc.nat(), fc.constantFrom('', ...PIECES)).map(([first, second, at, put]) => {
    const text = `{"raw":{"v":${first}},"other":${second},"raw":{"w":${second}}}`;
    const from = at % (text.length + 1);
    return text.slice(0, from) + put + text.slice(from);
  }),
);

/** Returns the observable result of a read as text, or the error message. */
function seen(read: () => JsonValue): string {
  try {
    const value = read();
    return `${writeJson(value)} ${JSON.stringify(value)} ${Object.is(value, -0)}`;
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    return error.message;
  }
}

describe('the JSON reader and a recursive reference reader', () => {
  it('return the same value or the same error for any text', () => {
    fc.assert(
      fc.property(nearJson, fc.boolean(), (text, withMark) => {
        const bytes = Buffer.from(withMark ? `\ufeff${text}` : text);
        const options = { rawMembers: RAW };
        expect(seen(() => readJson(bytes, options))).toBe(seen(() => simple.readJson(bytes, options)));
      }),
      { numRuns: 5000 },
    );
  });

  it('return the same number for any spelling', () => {
    const digits = fc.stringMatching(/^[0-9]{1,24}$/);
    const spelling = fc
      .tuple(
        fc.constantFrom('', '-'),
        digits,
        fc.option(digits),
        fc.option(fc.integer({ min: -340, max: 340 })),
      )
      .map(([sign, whole, fraction, exponent]) => {
        const mantissa = `${sign}${whole}${fraction === null ? '' : `.${fraction}`}`;
        return exponent === null ? mantissa : `${mantissa}e${exponent}`;
      });
    fc.assert(
      fc.property(spelling, (text) => {
        const bytes = Buffer.from(text);
        const options = { rawMembers: RAW };
        expect(seen(() => readJson(bytes, options))).toBe(seen(() => simple.readJson(bytes, options)));
      }),
      { numRuns: 5000 },
    );
  });
});
