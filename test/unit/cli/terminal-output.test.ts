import { describe, expect, it } from 'vitest';
import type { CommandProcess } from '../../../cli/context.ts';
import { createContext } from '../../../cli/context.ts';
import { printableJson } from '../../../cli/printable.ts';

/**
 * Characters that control a terminal, reverse the order of text or break a line, each with a name.
 */
const HOSTILE = [
  ['an escape sequence', '\u001b[2J'],
  ['a bell', '\u0007'],
  ['a carriage return', '\r'],
  ['a C1 control sequence introducer', '\u009b2J'],
  ['a delete', '\u007f'],
  ['a right-to-left override', '\u202e'],
  ['a line separator', '\u2028'],
  ['a paragraph separator', '\u2029'],
  ['a tag', '\u{e0041}'],
] as const;
// biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these are meant
const STEERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\p{Cf}]/u;

function setUp() {
  let written = '';
  const stdout = {
    write(text: string) {
      written += text;
      return true;
    },
  };
  const context = createContext({ env: {}, stdout, stderr: stdout } as unknown as CommandProcess);
  return { context, written: () => written };
}

describe.each(HOSTILE)('%s in a stored value', (_name, hostile) => {
  const value = `a${hostile}b`;

  it('does not reach the terminal from any cell of a table', () => {
    const { context, written } = setUp();
    context.printTable(
      ['key', 'value'],
      [
        [value, 'plain'],
        ['plain', value],
      ],
    );
    expect(written()).not.toMatch(STEERS);
    expect(written()).toContain('plain');
  });

  it('does not reach the terminal from a line', () => {
    const { context, written } = setUp();
    context.print(`Not replayable: ${value}.`);
    expect(written()).not.toMatch(STEERS);
  });

  it('is escaped in JSON without a loss', () => {
    const { context, written } = setUp();
    context.printJson({ [value]: [value] });
    expect(written()).not.toMatch(STEERS);
    expect(JSON.parse(written())).toEqual({ [value]: [value] });
    const text = printableJson({ value }, 2);
    expect(text).not.toMatch(STEERS);
    expect(text).toContain('\n  ');
    expect(JSON.parse(text)).toEqual({ value });
  });
});

it('a line feed in a stored value does not begin a line', () => {
  const { context, written } = setUp();
  context.print('Not replayable: a\nNext: b');
  expect(written()).toBe('Not replayable: a\\nNext: b\n');
});

it('a table keeps the lines of a cell and letters of all scripts', () => {
  const { context, written } = setUp();
  context.printTable(['scopes'], [['events:write\nstate:read'], ['名前 שלום ż']]);
  for (const text of ['events:write', 'state:read', '名前 שלום ż']) expect(written()).toContain(text);
});
