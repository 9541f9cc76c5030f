import { gzipSync } from 'node:zlib';
import type { Random } from './random.ts';

/** A body with the headers that declare its encoding. */
export interface MutatedBody {
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

const JSON_TYPE = { 'Content-Type': 'application/json' };
const GZIP = { ...JSON_TYPE, 'Content-Encoding': 'gzip' };
const TOKENS = [
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '"',
  '\\',
  '\\u',
  '\\ud800',
  '\\u0000',
  '1e999',
  '-',
  '0',
  'null',
  'tru',
  '\u00a0',
  '\ufeff',
  '\0',
  '//',
  '/*',
  "'",
  'NaN',
  '{"a":',
  '\t',
  '\n',
];
const TYPES = [
  'text/plain',
  '',
  'application/json; charset=utf-16',
  'application/json; charset="utf-8',
  'application/json;;;=',
  ';',
  'application/json; charset=utf-8',
  'multipart/form-data; boundary=x',
  'application/json\t',
];
const CODINGS = ['br', 'deflate', 'gzip, gzip', 'identity, gzip', 'GZIP', '', ' ', 'x'.repeat(500)];
const BOMB = gzipSync(Buffer.alloc(32 * 1024 * 1024, ' '), { level: 9 });

/** Returns the JSON text with changed bytes, a broken compression, or a wrong declaration. */
export function mutateBody(json: string, random: Random): MutatedBody {
  const bytes = Buffer.from(json);
  switch (random.below(14)) {
    case 0:
      return { bytes: nested(random), headers: JSON_TYPE };
    case 1:
      return { bytes: gzipSync(bytes), headers: GZIP };
    case 2:
      return { bytes: mutateBytes(gzipSync(bytes), random), headers: GZIP };
    case 3:
      return {
        bytes: random.oneIn(20) ? BOMB : Buffer.concat([gzipSync(bytes), random.bytes(random.below(9))]),
        headers: GZIP,
      };
    case 4:
      return { bytes: random.bytes(random.below(300)), headers: JSON_TYPE };
    case 5:
      return {
        bytes: Buffer.from(`\ufeff${json}`, random.of(['utf8', 'utf16le', 'latin1'] as const)),
        headers: JSON_TYPE,
      };
    case 6:
      return { bytes, headers: { 'Content-Type': random.of(TYPES) } };
    case 7:
      return {
        bytes: random.oneIn(2) ? gzipSync(bytes) : bytes,
        headers: { ...JSON_TYPE, 'Content-Encoding': random.of(CODINGS) },
      };
    case 8:
      return { bytes: gzipSync(mutateBytes(bytes, random)), headers: GZIP };
    default:
      return { bytes: mutateBytes(bytes, random), headers: JSON_TYPE };
  }
}

/**
 * Returns the bytes with 1 to 5 changes. Bits, bytes, tokens and slices are changed, inserted,
 * removed, duplicated or cut.
 */
export function mutateBytes(bytes: Buffer, random: Random): Buffer {
  let result = Buffer.from(bytes);
  for (let times = 1 + random.below(5); times > 0; times--) {
    const at = random.below(result.length + 1);
    const end = Math.min(result.length, at + random.below(20));
    const [before, slice, after] = [result.subarray(0, at), result.subarray(at, end), result.subarray(end)];
    switch (random.below(7)) {
      case 0:
        if (at < result.length) result[at]! ^= 1 << random.below(8);
        break;
      case 1:
        result = Buffer.concat([before, random.bytes(1 + random.below(4)), slice, after]);
        break;
      case 2:
        result = Buffer.concat([before, after]);
        break;
      case 3:
        result = Buffer.concat([before, slice, slice, after]);
        break;
      case 4:
        result = Buffer.from(before);
        break;
      default:
        result = Buffer.concat([before, Buffer.from(random.of(TOKENS)), slice, after]);
    }
  }
  return result;
}

function nested(random: Random): Buffer {
  const levels = random.of([30, 31, 32, 33, 100, 5000, 60_000]);
  const [open, close] = random.of([
    ['[', ']'],
    ['{"a":', '}'],
  ] as const);
  return Buffer.from(`{"deep":${open.repeat(levels)}1${random.oneIn(3) ? '' : close.repeat(levels)}}`);
}
