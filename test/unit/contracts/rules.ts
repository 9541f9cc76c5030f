/** The rules that members share, each with values at its limits and beyond. */

/** The values of a member. A message follows the member's path, and `at` a place within the value. */
export interface Rule {
  readonly accepts: readonly unknown[];
  readonly refuses: readonly (readonly [value: unknown, message: string, at?: string])[];
  /** Values of other types, with their message. */
  readonly otherTypes: readonly unknown[];
  readonly ofOtherType: string;
}

type Values = Rule['accepts'];
type Refused = Rule['refuses'];

/** Every string must be storable: without U+0000 and unpaired surrogates. */
export const string = (accepts: Values, refuses: Refused): Rule => ({
  accepts,
  refuses: [
    ...refuses,
    ['x\u0000', 'must not contain U+0000'],
    ['\ud83d', 'must not contain an unpaired surrogate'],
  ],
  otherTypes: [7, true, ['x'], { x: 1 }],
  ofOtherType: 'must be a string',
});
const number = (accepts: Values, refused: Values, message: string): Rule => ({
  accepts,
  refuses: refused.map((value) => [value, message]),
  otherTypes: ['1', true, [1], {}],
  ofOtherType: message,
});
const list = (accepts: Values, refuses: Refused): Rule => ({
  accepts,
  refuses,
  otherTypes: ['x', 7, { x: 1 }],
  ofOtherType: 'must be an array',
});

export const longerThan = (length: number, character = 'x') =>
  [character.repeat(length + 1), `must be at most ${length} characters`] as const;
/** Limits count code points. */
export const text = (lengthMax: number) =>
  string(
    ['', 'x\n', '\ud83d\ude00', '😀'.repeat(lengthMax)],
    [longerThan(lengthMax, '😀'), longerThan(lengthMax)],
  );
export const CONTROL = 'must not contain control characters';
export const ID = string(['', ' ', 'a b', '😀'.repeat(256)], [longerThan(256, '😀'), ['a\u0007b', CONTROL]]);
export const REQUIRED_ID = string(
  ['m:1', 'a b', '😀'.repeat(256)],
  [longerThan(256, '😀'), ['a\u0007b', CONTROL], ['', 'must not be blank'], [' ', 'must not be blank']],
);
export const WORD_TEXT = "must be one or more letters, digits, '_' or '-'";
export const word = (lengthMax: number) =>
  string(
    ['x', 'A_z-9'.padEnd(lengthMax, '0')],
    [longerThan(lengthMax), ...['', 'a.b', 'a b', 'ü', 'x\n'].map((value) => [value, WORD_TEXT] as const)],
  );
export const oneOf = (values: readonly string[]): Rule => {
  const message = `must be one of ${values.join(', ')}`;
  return {
    accepts: values,
    refuses: ['', 'NO_SUCH_VALUE', `${values[0]} `, swapCase(values[0]!)].map((value) => [value, message]),
    otherTypes: [7, [values[0]], {}],
    ofOtherType: message,
  };
};
const swapCase = (value: string) =>
  value === value.toUpperCase() ? value.toLowerCase() : value.toUpperCase();
export const listOf = (
  item: string,
  lengthMin: 0 | 1,
  refuses: Refused,
  ifEmpty = 'must have at least one entry',
) =>
  list(
    [[item, item], Array(100).fill(item), ...(lengthMin === 0 ? [[]] : [])],
    [
      [Array(101).fill(item), 'must have at most 100 entries'],
      ...(lengthMin === 0 ? [] : [[[], ifEmpty] as const]),
      ...refuses,
    ],
  );
export const integer = (min: number, max = 2_147_483_647) =>
  number(
    [min, 7, max],
    [min - 1, max + 1, 3_000_000_000, 2 ** 53, min + 0.5],
    `must be a whole number from ${min} to ${max}`,
  );
export const SECONDS = number([0, 0.25, 1e300], [-0.1], 'must be a number of seconds, 0 or more');
const TIMESTAMP_TEXT =
  'must be an RFC 3339 timestamp with offset, at most nine fraction digits, from 1678 to 2261';
export const timestamp = (refuses: Refused = []) =>
  string(
    ['2261-12-31T23:59:59.123456789+23:59', '2260-01-01t00:00:00z', '2228-02-29T23:59:59-00:00'],
    [
      ...['2260-02-30T00:00:00Z', '2260-01-01T00:00:00', '2260-01-01', '2260-01-01T00:00:00.1234567890Z'].map(
        (value) => [value, TIMESTAMP_TEXT] as const,
      ),
      ['2262-01-01T00:00:00Z', TIMESTAMP_TEXT],
      ['1677-12-31T23:59:59Z', TIMESTAMP_TEXT],
      ...refuses,
    ],
  );
export const FREE_FORM: Rule = {
  accepts: [{}, { a: [{ b: null }] }],
  refuses: [[{ x: '\u0000' }, 'must not contain U+0000']],
  otherTypes: ['x', 7, []],
  ofOtherType: 'must be an object',
};
export const ATTRIBUTES = list(
  [[], Array(10).fill({ name: 'n'.repeat(256), value: 'v'.repeat(1024) }), [{ name: 'n', value: '' }]],
  [
    [Array(11).fill({ name: 'n', value: '' }), 'must have at most 10 entries'],
    [[{ name: '', value: 'v' }], 'must not be empty', '[0].name'],
    [[{ name: 'n'.repeat(257), value: 'v' }], 'must be at most 256 characters', '[0].name'],
    [[{ name: 'n', value: 'v'.repeat(1025) }], 'must be at most 1024 characters', '[0].value'],
    [[{ name: 'n' }], 'is required', '[0].value'],
  ],
);
export const TOKEN = string(
  ['t', '😀'],
  [['', 'must not be blank'], [' ', 'must not be blank'], longerThan(65_536)],
);
