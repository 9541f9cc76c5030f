import type { z } from 'zod';
import { CLOSE_BRACE, COMMA, DOT, OPEN_BRACE, SPACE, ZERO } from './json-bytes.ts';
import type { JsonScan } from './json-scan.ts';
import { isTimestamp } from './timestamps.ts';

/**
 * Checks of values in the bytes of a request, for the usual form of valid values. Each moves past a
 * value whose bytes are exactly those that writeJson would write for it, and returns false for all
 * other values: invalid ones, and valid ones in another form.
 */
export type ScanValue = (scan: JsonScan) => boolean;

/** The checks of building blocks, by their definition, which copies of a schema share. */
const scans = new WeakMap<object, ScanValue>();

/** Sets the check of a schema's values. */
export function scanBy<S extends z.ZodType>(schema: S, scan: ScanValue | undefined): S {
  if (scan) scans.set(schema.def, scan);
  return schema;
}

/** Returns the check of a schema's values; undefined if it has none. */
export function scanOf(schema: z.ZodType): ScanValue | undefined {
  return scans.get(schema.def);
}

/** The rules of a string that concern valid ASCII. */
export interface TextRules {
  /** Maximum number of Unicode code points. */
  readonly lengthMax: number;
  readonly lengthMin?: number;
  readonly pattern?: RegExp;
  readonly notBlank?: boolean;
}

/** Strings of printable ASCII. A character of ASCII is one byte, one code unit and one code point. */
export function scanText({ lengthMin = 0, lengthMax, notBlank, pattern }: TextRules): ScanValue {
  return (scan) => {
    if (!scan.ascii(lengthMax) || scan.end - scan.start < lengthMin) return false;
    if (notBlank && isBlank(scan)) return false;
    return !pattern || pattern.test(scan.text());
  };
}

function isBlank({ bytes, start, end }: JsonScan): boolean {
  for (let at = start; at < end; at++) if (bytes[at] !== SPACE) return false;
  return true;
}

/** Longer than the names of all members and all values of enumerations. */
export const NAME_LENGTH_MAX = 64;

export function scanOneOf(values: ReadonlySet<unknown>): ScanValue {
  return (scan) => scan.ascii(NAME_LENGTH_MAX) && values.has(scan.text());
}

export function scanTimestamp(lengthMax: number): ScanValue {
  return (scan) => scan.ascii(lengthMax) && isTimestamp(scan.bytes, scan.start, scan.end);
}

export function scanInteger(min: number, max: number): ScanValue {
  return (scan) => scan.integer() && scan.number >= min && scan.number <= max;
}

/** JavaScript writes smaller numbers with an exponent. */
const PLAIN_NUMBER_MIN = 1e-6;

/** Seconds of at most 15 digits, without zeros at the end of the fraction. */
export const scanSeconds: ScanValue = (scan) => {
  const { at } = scan;
  if (scan.integer() && scan.bytes[scan.at] !== DOT) return scan.number >= 0;
  scan.at = at;
  return scan.double() && scan.number >= PLAIN_NUMBER_MIN && scan.bytes[scan.at - 1] !== ZERO;
};

/** Lists without white space. */
export function scanList(item: ScanValue, lengthMin: number, lengthMax: number): ScanValue {
  return (scan) => {
    let length = 0;
    const isList = scan.list(() => ++length <= lengthMax && item(scan));
    return isList && length >= lengthMin;
  };
}

/** Objects of exactly these members in this order, without white space. */
export function scanObject(shape: Readonly<Record<string, z.ZodType>>): ScanValue | undefined {
  const names = Object.keys(shape).map((name) => Buffer.from(`${JSON.stringify(name)}:`));
  const members = Object.values(shape).map(scanOf);
  if (!members.every((member) => member !== undefined)) return undefined;
  return (scan) => {
    for (let index = 0; index < members.length; index++) {
      if (!scan.byte(index === 0 ? OPEN_BRACE : COMMA) || !scan.literal(names[index]!)) return false;
      if (!members[index]!(scan)) return false;
    }
    return scan.byte(CLOSE_BRACE);
  };
}
