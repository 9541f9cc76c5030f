import { expect, it } from 'vitest';
import { printable } from '../../../cli/printable.ts';

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
])('%s is replaced by visible text', (_what, text) => {
  expect(printable(text)).toMatch(/\ufffd/);
  expect(printable(text)).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  expect(printable(text).replace('\ufffd', '')).toHaveLength(
    text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '').length,
  );
});

it('printable text is unchanged, including line feeds and tabs', () => {
  const text = 'import ż\n\t名前 שלום 🙂';
  expect(printable(text)).toBe(text);
});
