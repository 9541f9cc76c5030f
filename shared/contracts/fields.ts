import { z } from 'zod';
import { INVALID, readBy, readEach } from './compiled-schema.ts';
import {
  scanBy,
  scanInteger,
  scanList,
  scanObject,
  scanOf,
  scanOneOf,
  scanSeconds,
  scanText,
  scanTimestamp,
  type TextRules,
} from './field-scans.ts';
import { InexactNumber, RawJson, stringProblem } from './json.ts';
import { parseTimestampNs, TIMESTAMP_PATTERN } from './timestamps.ts';

/**
 * The building blocks of the request schemas. Each message completes a sentence that begins with a
 * member's path.
 */

const ID_LENGTH_MAX = 256;
const ARRAY_LENGTH_MAX = 100;
export const TEXT_LENGTH_MAX = 16_384;
const ATTRIBUTES_MAX = 10;
const ATTRIBUTE_VALUE_LENGTH_MAX = 1024;
const WORD_PATTERN = /^[a-zA-Z0-9_-]+$/;
const INT32_MAX = 2 ** 31 - 1;
const INT32_MIN = -(2 ** 31);

const CONTROL_RANGES = '\\u0000-\\u001f\\u007f-\\u009f';
const CONTROL_CHARACTERS = new RegExp(`[${CONTROL_RANGES}]`);

export interface StringRules extends TextRules {
  /** A description of the pattern, e.g. `letters, digits, '_' and '-'`. */
  readonly patternText?: string;
  readonly noControlCharacters?: boolean;
}

export function stringField(rules: StringRules) {
  const schema = z
    .string({ error: (issue) => (issue.input === undefined ? 'is required' : 'must be a string') })
    .check((ctx) => {
      const message = brokenRule(ctx.value, rules);
      if (message) ctx.issues.push({ code: 'custom', message, input: ctx.value });
    })
    .meta(stringMeta(rules));
  const isValid = (value: unknown) => typeof value === 'string' && brokenRule(value, rules) === undefined;
  readBy(schema, (value) => (isValid(value) ? value : INVALID));
  return scanBy(schema, scanText(rules));
}

/** Returns the same rules as JSON Schema, which cannot exclude U+0000 and unpaired surrogates. */
function stringMeta({ lengthMax, lengthMin, pattern, notBlank, noControlCharacters }: StringRules) {
  const source = pattern?.source ?? blankPattern(notBlank, noControlCharacters);
  return {
    ...(lengthMin !== undefined && { minLength: lengthMin }),
    maxLength: lengthMax,
    ...(source !== undefined && { pattern: source }),
  };
}

function blankPattern(notBlank = false, noControlCharacters = false): string | undefined {
  const any = `[^${CONTROL_RANGES}]*`;
  // U+FEFF is white space in JavaScript, but not in all languages in which callers use these
  // patterns.
  const blank = '\\s\\ufeff';
  if (!noControlCharacters) return notBlank ? `[^${blank}]` : undefined;
  return notBlank ? `^${any}[^${blank}${CONTROL_RANGES}]${any}$` : `^${any}$`;
}

function brokenRule(text: string, rules: StringRules): string | undefined {
  const problem = stringProblem(text);
  if (problem) return problem;
  if (text.length > rules.lengthMax && isLonger(text, rules.lengthMax)) {
    return `must be at most ${rules.lengthMax} characters`;
  }
  if (text.length < (rules.lengthMin ?? 0)) {
    return rules.lengthMin === 1 ? 'must not be empty' : `must be at least ${rules.lengthMin} characters`;
  }
  if (rules.notBlank && text.trim() === '') return 'must not be blank';
  if (rules.noControlCharacters && CONTROL_CHARACTERS.test(text))
    return 'must not contain control characters';
  if (rules.pattern && !rules.pattern.test(text)) return `must be ${rules.patternText}`;
  return undefined;
}

/**
 * Returns whether the text has more code points than `lengthMax`. A code point has one or two code
 * units.
 */
function isLonger(text: string, lengthMax: number): boolean {
  if (text.length > 2 * lengthMax) return true;
  let count = 0;
  for (const _ of text) count++;
  return count > lengthMax;
}

/** The schema of a required id. */
export const requiredId = stringField({
  lengthMax: ID_LENGTH_MAX,
  notBlank: true,
  noControlCharacters: true,
});
/** The schema of an id that may be blank. */
export const optionalId = stringField({ lengthMax: ID_LENGTH_MAX, noControlCharacters: true });
export const text256 = stringField({ lengthMax: 256 });

export function word(lengthMax: number) {
  return stringField({
    lengthMax,
    pattern: WORD_PATTERN,
    patternText: "one or more letters, digits, '_' or '-'",
  });
}

/** The schema of a caller's own record id. */
export const eventIdField = word(ID_LENGTH_MAX);

export const ulidField = stringField({
  lengthMax: 26,
  pattern: /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/,
  patternText: 'a ULID (26 upper-case characters)',
});

/** Returns the schema of a whole number within int32. `min`: 0 for counts, 1 for positions. */
export function int32(min: number = INT32_MIN, max: number = INT32_MAX) {
  const message = `must be a whole number from ${min} to ${max}`;
  const isInRange = (value: unknown) =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
  const schema = z
    .number({ error: message })
    .check((ctx) => {
      if (!isInRange(ctx.value)) ctx.issues.push({ code: 'custom', message, input: ctx.value });
    })
    .meta({ type: 'integer', minimum: min, maximum: max });
  readBy(schema, (value) => (isInRange(value) ? value : INVALID));
  return scanBy(schema, scanInteger(min, max));
}

/** The schema of seconds: a finite double that is not negative. */
export const secondsField = scanBy(
  readBy(
    z
      .preprocess(
        (value) => (value instanceof InexactNumber ? value.value : value),
        z
          .number({ error: 'must be a number of seconds, 0 or more' })
          .min(0, { error: 'must be a number of seconds, 0 or more' }),
      )
      .meta({ type: 'number', minimum: 0 }),
    (value) => {
      const seconds = value instanceof InexactNumber ? value.value : value;
      return typeof seconds === 'number' && Number.isFinite(seconds) && seconds >= 0 ? seconds : INVALID;
    },
  ),
  scanSeconds,
);

const TIMESTAMP_LENGTH_MAX = 64;

export const timestampField = scanBy(
  readBy(
    stringField({ lengthMax: TIMESTAMP_LENGTH_MAX })
      .refine((text) => parseTimestampNs(text) !== undefined, {
        error: 'must be an RFC 3339 timestamp with offset, at most nine fraction digits, from 1678 to 2261',
      })
      .meta({ maxLength: TIMESTAMP_LENGTH_MAX, format: 'date-time', pattern: TIMESTAMP_PATTERN }),
    (value) =>
      typeof value === 'string' &&
      value.length <= TIMESTAMP_LENGTH_MAX &&
      parseTimestampNs(value) !== undefined
        ? value
        : INVALID,
  ),
  scanTimestamp(TIMESTAMP_LENGTH_MAX),
);

export function oneOf<const T extends readonly string[]>(values: T) {
  const schema = z.enum(values as unknown as readonly [string, ...string[]], {
    error: `must be one of ${values.join(', ')}`,
  });
  const known: ReadonlySet<unknown> = new Set(values);
  readBy(schema, (value) => (known.has(value) ? value : INVALID));
  return scanBy(schema, scanOneOf(known));
}

export interface ArrayRules {
  readonly lengthMax?: number;
  /** The error of an empty array. Default: an empty array is accepted. */
  readonly ifEmpty?: string;
}

export function arrayOf<T extends z.ZodType>(item: T, rules: ArrayRules = {}) {
  const { lengthMax = ARRAY_LENGTH_MAX, ifEmpty } = rules;
  const message = `must have at most ${lengthMax} entries`;
  const any = z
    .array(item, { error: (issue) => (issue.input === undefined ? 'is required' : 'must be an array') })
    .max(lengthMax, { error: message });
  const schema = z.preprocess(
    (value, ctx) => {
      if (!Array.isArray(value) || value.length <= lengthMax) return value;
      // Checked before the entries: a body can hold 250,000 entries, each with its own problems.
      ctx.issues.push({ code: 'custom', message, input: value });
      return z.NEVER;
    },
    ifEmpty === undefined ? any : any.min(1, { error: ifEmpty }),
  );
  const readEntries = readEach(item);
  const lengthMin = ifEmpty === undefined ? 0 : 1;
  if (readEntries) {
    readBy(schema, (value) => {
      const isFit = Array.isArray(value) && value.length >= lengthMin && value.length <= lengthMax;
      return isFit ? readEntries(value) : INVALID;
    });
  }
  const scanItem = scanOf(item);
  return scanBy(schema, scanItem && scanList(scanItem, lengthMin, lengthMax));
}

export function objectOf<T extends z.ZodRawShape>(shape: T) {
  const schema = z.object(shape, {
    error: (issue) => (issue.input === undefined ? 'is required' : 'must be an object'),
  });
  return scanBy(schema, scanObject(shape as unknown as Readonly<Record<string, z.ZodType>>));
}

export const attributesField = arrayOf(
  objectOf({
    name: stringField({ lengthMax: 256, lengthMin: 1 }).describe('The name of the attribute.'),
    value: stringField({ lengthMax: ATTRIBUTE_VALUE_LENGTH_MAX }).describe('The value.'),
  }),
  { lengthMax: ATTRIBUTES_MAX },
);

const rawJson = z
  .custom<RawJson>((value) => value instanceof RawJson, { error: 'must be an object' })
  .check((ctx) => {
    if (ctx.value instanceof RawJson && ctx.value.problem) {
      ctx.issues.push({ code: 'custom', message: ctx.value.problem, input: ctx.value });
    }
  })
  .meta({ type: 'object' });

/** The schema of a free-form object, which is kept byte for byte. */
export const freeForm = readBy(rawJson, (value) =>
  value instanceof RawJson && value.problem === undefined ? value : INVALID,
);
