import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  InexactNumber,
  JsonSyntaxError,
  type JsonValue,
  NO_RAW_MEMBERS,
  RawJson,
  writeJson,
} from '../../../shared/contracts/json.ts';
import { readJson } from '../../../shared/contracts/read-json.ts';

const RUNS = { numRuns: 2000 };

/** Tokens for texts that are almost JSON. */
const TOKENS = [
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '"',
  '\\',
  '\\u00',
  '\\ud800',
  '0',
  '-',
  '1',
  '.5',
  'e1',
  'E+',
  'true',
  'nul',
  ' ',
  '\n',
  '\t',
  'a',
  'é',
  '"a"',
  '"a":',
  '\u00a0',
  '\ufeff',
  '\0',
];
const nearJson = fc.oneof(
  fc.json(),
  fc.array(fc.constantFrom(...TOKENS), { maxLength: 12 }).map((parts) => parts.join('')),
  fc
    .tuple(fc.json(), fc.nat(), fc.nat({ max: 3 }), fc.constantFrom('', ...TOKENS))
    .map(([text, at, taken, put]) => {
      const from = at % (text.length + 1);
      return text.slice(0, from) + put + text.slice(from + taken);
    }),
);

describe('the JSON reader', () => {
  it('accepts the texts that JSON.parse accepts, with the same values', () => {
    fc.assert(
      fc.property(nearJson, (text) => {
        const bytes = Buffer.from(text);
        // The conversion to bytes changes malformed strings and a leading byte order mark.
        const sent = new TextDecoder().decode(bytes);
        const expected = parseOrUndefined(sent);
        const value = readOrUndefined(bytes);
        expect(value === undefined ? undefined : plain(value)).toEqual(expected);
      }),
      RUNS,
    );
  });

  it('throws nothing but JsonSyntaxError, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        readOrUndefined(Buffer.from(bytes));
      }),
      RUNS,
    );
  });

  it('keeps raw members byte for byte, whatever their content', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ maxDepth: 5 })),
        fc.nat({ max: 8 }),
        (value, indent) => {
          const text = JSON.stringify(value, undefined, indent);
          const read = readJson(Buffer.from(`{"raw": ${text} ,"raw2":1}`), {
            rawMembers: new Set(['raw']),
          }) as {
            raw: RawJson;
          };
          expect(read.raw).toBeInstanceOf(RawJson);
          expect(read.raw.text).toBe(text);
          expect(writeJson(read)).toBe(`{"raw":${text},"raw2":1}`);
        },
      ),
      RUNS,
    );
  });

  it('accepts at most 32 levels', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 40 }), (levels) => {
        const open = levels.map((object) => (object ? '{"a":' : '[')).join('');
        const close = levels
          .map((object) => (object ? '}' : ']'))
          .reverse()
          .join('');
        expect(readOrUndefined(Buffer.from(`${open}1${close}`)) !== undefined).toBe(levels.length <= 32);
      }),
    );
  });

  it('returns the last of members with the same name, and gives no name a special meaning', () => {
    const name = fc.constantFrom('a', '__proto__', 'constructor', 'toString', 'b');
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.nat()), { maxLength: 8 }), (members) => {
        const text = `{${members.map(([key, value]) => `"${key}":${value}`).join(',')}}`;
        const read = readJson(Buffer.from(text), { rawMembers: NO_RAW_MEMBERS }) as object;
        expect(Object.entries(read)).toEqual([...new Map(members)]);
        expect(Object.keys(Object.prototype)).toEqual([]);
      }),
    );
  });

  it('distinguishes integers from numbers that a double rounds to one', () => {
    const digits = fc.stringMatching(/^[0-9]{1,25}$/);
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }),
        digits,
        fc.integer({ min: -30, max: 30 }),
        (whole, fraction, exponent) => {
          const text = `${whole}.${fraction}e${exponent}`;
          const read = readJson(Buffer.from(text), { rawMembers: NO_RAW_MEMBERS });
          const exact = isWhole(whole, fraction, exponent);
          const double = Number(text);
          expect(read instanceof InexactNumber).toBe(Number.isInteger(double) && !exact);
          expect(plain(read)).toBe(double);
        },
      ),
      RUNS,
    );
  });
});

/** Returns whether the decimal is a whole number, computed with big integers. */
function isWhole(whole: bigint, fraction: string, exponent: number): boolean {
  const magnitude = whole < 0n ? -whole : whole;
  const scaled = magnitude * 10n ** BigInt(fraction.length) + BigInt(fraction);
  const shift = exponent - fraction.length;
  return shift >= 0 || scaled % 10n ** BigInt(-shift) === 0n;
}

function readOrUndefined(bytes: Buffer): JsonValue | undefined {
  try {
    return readJson(bytes, { rawMembers: NO_RAW_MEMBERS });
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    return undefined;
  }
}

/**
 * Returns the result of JSON.parse. Undefined if the text is invalid or nested more deeply than our
 * limit.
 */
function parseOrUndefined(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return depthOf(value) > 32 ? undefined : value;
  } catch {
    return undefined;
  }
}

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

/** Returns the value as JSON.parse would: with prototypes, and a double for every number. */
function plain(value: JsonValue | undefined): unknown {
  if (value instanceof InexactNumber) return value.value;
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => [name, plain(member)] as const);
  return Object.fromEntries(members);
}
