import type { Run } from './case.ts';

/**
 * The permitted values of a member. Written from the interface, not from the product's schemas, so
 * that a wrong limit in either is found.
 */
export type Rule =
  /** At most 256 characters, without control characters; a required id is not blank. */
  | { readonly kind: 'id' }
  /** Letters, digits, `_`, `-` and the characters in `more`; at least one character. */
  | { readonly kind: 'word'; readonly max: number; readonly more?: string }
  | { readonly kind: 'text'; readonly max: number; readonly min?: number }
  | { readonly kind: 'integer'; readonly min: number }
  | { readonly kind: 'seconds' }
  /** `isRecent`: at most 7 days before and 5 minutes after the request. */
  | { readonly kind: 'timestamp'; readonly isRecent?: boolean }
  | { readonly kind: 'ulid' }
  | { readonly kind: 'email' }
  | { readonly kind: 'language' }
  | { readonly kind: 'enum'; readonly values: readonly string[] }
  | { readonly kind: 'list'; readonly of: Rule; readonly max: number; readonly min?: number }
  /** At most 10 objects `{name, value}`. */
  | { readonly kind: 'attributes' }
  /** An object with any members. */
  | { readonly kind: 'free-form' };

/** A value of a member, as JSON text. */
export interface Sample {
  readonly what: string;
  readonly json: string;
  /**
   * Undefined: accepted. Otherwise the path within the value that is rejected (`''` for the value
   * itself), and the required text.
   */
  readonly refused?: { readonly at: string; readonly text?: RegExp };
}

const INT32_MAX = 2_147_483_647;
const INT32_MIN = -2_147_483_648;

const ok = (what: string, json: string): Sample => ({ what, json });
const no = (what: string, json: string, at = '', text?: RegExp): Sample => ({
  what,
  json,
  refused: { at, ...(text && { text }) },
});
const quoted = (text: string) => JSON.stringify(text);

/** Returns values at each limit of the rule, one past each limit, and of every other type. */
export function samplesOf(rule: Rule, run: Run): Sample[] {
  switch (rule.kind) {
    case 'id':
      return [
        ...strings(run, 256, 'any'),
        no('with a line feed', quoted(`a\n${run.id()}`)),
        no('with U+007F', '"a\\u007f"'),
        no('with U+0085', '"a\\u0085"'),
      ];
    case 'text':
      return [...strings(run, rule.max, 'any', rule.min), ok('with a line feed', quoted(`a\n${run.id()}`))];
    case 'word':
      return wordSamples(run, rule.max, rule.more ?? '');
    case 'integer':
      return integerSamples(rule.min);
    case 'seconds':
      return [
        ok('0', '0'),
        ok('a fraction', '1.25'),
        ok('a large integer', '1e300'),
        ok('a number that rounds to an integer', '1.00000000000000000001'),
        no('just below 0', '-0.001'),
        no('a number beyond the largest double', '1e400'),
        ...otherTypes('number'),
      ];
    case 'timestamp':
      return [
        ...(rule.isRecent ? recentSamples() : TIMESTAMPS.map((text) => ok(text, quoted(text)))),
        ...badTimestampSamples(),
        ...otherTypes('string'),
      ];
    case 'ulid':
      return ulidSamples(run);
    case 'email':
      return emailSamples(run);
    case 'language':
      return [
        ok('a tag', '"en-gb"'),
        ok('in upper case', '"EN-GB"'),
        ok('of one subtag', '"de"'),
        no('with an underscore', '"en_gb"'),
        no('empty', '""'),
        no('with a trailing hyphen', '"en-"'),
        no('with a space', '"en gb"'),
        ...otherTypes('string'),
      ];
    case 'enum':
      return enumSamples(rule.values);
    case 'list':
      return listSamples(rule.of, rule.max, rule.min ?? 0, run);
    case 'attributes':
      return attributesSamples(run);
    case 'free-form':
      return freeFormSamples();
  }
}

/** Returns values of every type except the given one. */
function otherTypes(type: 'string' | 'number' | 'array' | 'object'): Sample[] {
  const values = { string: '"1"', number: '1', array: '[]', object: '{}', boolean: 'true' };
  return Object.entries(values)
    .filter(([name]) => name !== type)
    .map(([name, json]) => no(`of type ${name}`, json));
}

/**
 * Returns strings at the limit, which counts code points, and strings that every member rejects.
 */
function strings(run: Run, max: number, characters: 'any' | 'ascii', min = 0): Sample[] {
  const fill = (length: number, character = 'a') => {
    const start = run.id().slice(0, length);
    return quoted(start + character.repeat(length - start.length));
  };
  const wide: Sample[] = [
    ok(`${max} characters of four bytes`, fill(max, '😀')),
    no(`${max + 1} characters of four bytes`, fill(max + 1, '😀')),
    ok('an escaped surrogate pair', `"${run.id()}\\ud83d\\ude00"`),
  ];
  return [
    ok(`${max} characters`, fill(max)),
    no(`${max + 1} characters`, fill(max + 1)),
    ...(characters === 'any' ? wide : []),
    ...(min > 0 ? [no('empty', '""')] : []),
    no('with U+0000', '"a\\u0000b"', '', /U\+0000/),
    no('a lone high surrogate', '"a\\ud800"', '', /surrogate/),
    no('a lone low surrogate', '"\\udc00b"', '', /surrogate/),
    ...otherTypes('string'),
  ];
}

function wordSamples(run: Run, max: number, more: string): Sample[] {
  const start = run.id().slice(0, Math.max(0, max - 6));
  const allowed = `aZ09_-${more}`.slice(0, max - start.length);
  return [
    ...strings(run, max, 'ascii'),
    ok('every kind of character', quoted(start + allowed)),
    no('empty', '""'),
    no('a space', '"a b"'),
    no('with a trailing line feed', '"a\\n"'),
    no('a non-ASCII letter', '"ä"'),
    no('a slash', '"a/b"'),
    ...(more.includes('.') ? [] : [no('a dot', '"a.b"')]),
  ];
}

function integerSamples(min: number): Sample[] {
  return [
    ok('the minimum', String(min)),
    no('one below the minimum', String(min - 1)),
    ok('the largest int32', String(INT32_MAX)),
    no('one above the maximum', String(INT32_MAX + 1)),
    no('2^53 + 1', '9007199254740993'),
    ok('written with a fraction of 0', '7.0'),
    ok('written with an exponent', '1e2'),
    no('a fraction', '1.5'),
    no('a fraction that a double drops', '1.00000000000000000001'),
    no('a number beyond the largest double', '1e400'),
    ...otherTypes('number'),
  ];
}

const TIMESTAMPS = [
  '2026-01-02T03:04:05Z',
  '2026-01-02T03:04:05.123456789Z',
  '2024-02-29T23:59:59.9-12:30',
  '1678-01-01T00:00:00+23:59',
  '2261-12-31T23:59:59.999999999-23:59',
];

const MINUTE_MS = 60_000;
const WEEK_MS = 7 * 24 * 60 * MINUTE_MS;

/** Returns times around those that are accepted, with time for the run and for another clock. */
function recentSamples(): Sample[] {
  const at = (aheadMs: number, end = 'Z') =>
    quoted(new Date(Date.now() + aheadMs).toISOString().replace('Z', end));
  const text = /at most 7 days before and 5 minutes after the request/;
  return [
    ok('the time of the request', at(0)),
    ok('with nanoseconds', at(0, '456789Z')),
    ok('with an offset', at(60 * MINUTE_MS, '+01:00')),
    ok('less than 7 days before', at(60 * MINUTE_MS - WEEK_MS)),
    no('more than 7 days before', at(-MINUTE_MS - WEEK_MS), '', text),
    ok('less than 5 minutes after', at(2 * MINUTE_MS)),
    no('more than 5 minutes after', at(60 * MINUTE_MS), '', text),
    no('in the distant past', quoted(TIMESTAMPS[3]!), '', text),
  ];
}

function badTimestampSamples(): Sample[] {
  const bad: Record<string, string> = {
    'ten fraction digits': '2026-01-02T03:04:05.1234567891Z',
    'no fraction digit': '2026-01-02T03:04:05.Z',
    'no offset': '2026-01-02T03:04:05',
    'a date that does not exist': '2026-02-29T00:00:00Z',
    'a year before 1678': '1677-12-31T23:59:59Z',
    'a year after 2261': '2262-01-01T00:00:00Z',
    'month 13': '2026-13-01T00:00:00Z',
    'hour 24': '2026-01-02T24:00:00Z',
    'minute 60': '2026-01-02T03:60:05Z',
    'a date alone': '2026-01-02',
    'with surrounding space': ' 2026-01-02T03:04:05Z',
    'an offset without a colon': '2026-01-02T03:04:05+0100',
    empty: '',
  };
  return Object.entries(bad).map(([what, text]) => no(what, quoted(text)));
}

function ulidSamples(run: Run): Sample[] {
  const ulid = run.ulid();
  return [
    ok('a ULID', quoted(ulid)),
    no('in lower case', quoted(ulid.toLowerCase().replace(/^./, '0').replace(/.$/, 'z'))),
    no('25 characters', quoted(ulid.slice(1))),
    no('27 characters', quoted(`0${ulid}`)),
    ...['I', 'L', 'O', 'U'].map((letter) => no(`the letter ${letter}`, quoted(ulid.slice(0, 25) + letter))),
    no('more than 128 bits', quoted(`8${ulid.slice(1)}`)),
    no('empty', '""'),
    ...otherTypes('string'),
  ];
}

function emailSamples(run: Run): Sample[] {
  const long = (length: number) => quoted(`${run.id().padEnd(length - 12, 'a')}@example.org`);
  return [
    ok('an address', '"name@example.org"'),
    ok('256 characters', long(256)),
    no('257 characters', long(257)),
    no('without @', '"example.org"'),
    no('without a dot after @', '"name@example"'),
    no('two @', '"a@b@example.org"'),
    no('a space', '"na me@example.org"'),
    no('empty', '""'),
    ...otherTypes('string'),
  ];
}

function enumSamples(values: readonly string[]): Sample[] {
  const first = values[0]!;
  const otherCase = first === first.toUpperCase() ? first.toLowerCase() : first.toUpperCase();
  return [
    ...values.map((value) => ok(value, quoted(value))),
    no('an unknown word', '"NO_SUCH_VALUE"'),
    no('in another case', quoted(otherCase)),
    no('with a space', quoted(`${first} `)),
    no('empty', '""'),
    ...otherTypes('string').filter(({ json }) => json !== '[]'),
    no('in an array', `[${quoted(first)}]`),
  ];
}

function listSamples(of: Rule, max: number, min: number, run: Run): Sample[] {
  const entries = samplesOf(of, run);
  const good = entries.find(({ refused }) => !refused)!.json;
  const list = (length: number) => `[${Array(length).fill(good).join(',')}]`;
  return [
    ok(`${max} entries`, list(max)),
    no(`${max + 1} entries`, list(max + 1)),
    min > 0 ? no('no entry', '[]') : ok('no entry', '[]'),
    no('null as the second entry', `[${good},null]`, '[1]'),
    ...entries.map(({ what, json, refused }) =>
      refused
        ? no(`an entry: ${what}`, `[${good},${json}]`, `[1]${refused.at}`, refused.text)
        : ok(`an entry: ${what}`, `[${json},${good}]`),
    ),
    ...otherTypes('array'),
  ];
}

function attributesSamples(run: Run): Sample[] {
  const good = '{"name":"n","value":"v"}';
  const list = (length: number) => `[${Array(length).fill(good).join(',')}]`;
  const inside = (member: 'name' | 'value', rule: Rule) =>
    samplesOf(rule, run).map(({ what, json, refused }): Sample => {
      const entry = member === 'name' ? `{"name":${json},"value":"v"}` : `{"name":"n","value":${json}}`;
      return refused
        ? no(`a ${member}: ${what}`, `[${good},${entry}]`, `[1].${member}`, refused.text)
        : ok(`a ${member}: ${what}`, `[${entry}]`);
    });
  return [
    ok('10 entries', list(10)),
    no('11 entries', list(11)),
    ok('no entry', '[]'),
    ok('an empty value', '[{"name":"n","value":""}]'),
    ok('an unknown member of an entry', '[{"name":"n","value":"v","more":1}]'),
    no('an entry without a name', '[{"value":"v"}]', '[0].name'),
    no('an entry without a value', '[{"name":"n"}]', '[0].value'),
    no('an entry whose value is null', '[{"name":"n","value":null}]', '[0].value'),
    no('an entry that is a string', '["n"]', '[0]'),
    no('null as an entry', '[null]', '[0]'),
    ...inside('name', { kind: 'text', max: 256, min: 1 }),
    ...inside('value', { kind: 'text', max: 1024 }),
    ...otherTypes('array'),
  ];
}

function freeFormSamples(): Sample[] {
  return [
    ok('empty', '{}'),
    ok('numbers beyond every double', '{ "n" : 90071992547409931234567890, "e": 1e400, "one":1.0 }'),
    ok('duplicate members', '{"a":1,"a":2}'),
    ok('a member __proto__', '{"__proto__":{"a":1},"constructor":null}'),
    ok('characters of four bytes', '{"😀":"😀"}'),
    no('with U+0000 in a string', '{"a":["b\\u0000"]}', '', /U\+0000/),
    no('with U+0000 in a name', '{"a\\u0000":1}', '', /U\+0000/),
    no('with a lone surrogate', '{"a":{"b":"\\ud800"}}', '', /surrogate/),
    ...otherTypes('object'),
  ];
}

/** The rule of the ranking member, which may be negative. */
export const ANY_INTEGER: Rule = { kind: 'integer', min: INT32_MIN };
export const COUNT: Rule = { kind: 'integer', min: 0 };
export const ID: Rule = { kind: 'id' };
export const TEXT: Rule = { kind: 'text', max: 256 };
export const WORD: Rule = { kind: 'word', max: 256 };
