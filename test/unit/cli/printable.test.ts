import { expect, it } from 'vitest';
import { printable, printableJson, printableLine } from '../../../cli/printable.ts';

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]/u;

it.each([
  ['an escape sequence', '\u001b[2Ja'],
  ['a carriage return', 'a\rb'],
  ['a C1 control', 'a\u009bb'],
  ['right-to-left override', 'ab\u202etropmi'],
  ['right-to-left isolate', 'a\u2067b'],
  ['a line separator', 'a\u2028b'],
  ['a paragraph separator', 'a\u2029b'],
  ['a zero-width space', 'impo\u200brt'],
  ['a byte order mark', '\ufeffimport'],
  ['a tag', 'import\u{e0041}'],
  ['a Hangul choseong filler', 'import\u115f'],
  ['a Hangul jungseong filler', 'import\u1160'],
  ['a blank braille pattern', 'import\u2800'],
  ['a Hangul filler', 'import\u3164'],
  ['a halfwidth Hangul filler', 'import\uffa0'],
])('%s is replaced by visible text', (_what, text) => {
  expect(printable(text)).toMatch(/\ufffd/);
  expect(printable(text)).not.toMatch(INVISIBLE);
  expect(printable(text).replace('\ufffd', '')).toBe(text.replace(INVISIBLE, ''));
  const json = printableJson({ text });
  expect(json).not.toMatch(INVISIBLE);
  expect(JSON.parse(json)).toEqual({ text });
});

it('printable text is unchanged, including line feeds and tabs', () => {
  const text = 'import ż\n\t名前 שלום 🙂';
  expect(printable(text)).toBe(text);
});

it('a printable line shows line feeds as \\n', () => {
  expect(printableLine('a\n\r\nż')).toBe('a\\n\ufffd\\nż');
});
