import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { splitStatements } from '../../shared/postgres/split-statements.ts';
import { ROOT } from '../support/program.ts';

describe('a file of SQL', () => {
  it.each<[string, string, string[]]>([
    ['at semicolons', 'select 1; select 2;\n', ['select 1', 'select 2']],
    ['without comments', '-- a; b\nselect 1 /* ; */ + 2; -- end;', ['select 1  + 2']],
    [
      'not inside texts and names',
      `select 'a;''b--', "c;d"; select 2`,
      [`select 'a;''b--', "c;d"`, 'select 2'],
    ],
    ['not inside blocks', 'do $$ a; $x$ b; $$; do $a$ $$;$$ $a$', ['do $$ a; $x$ b; $$', 'do $a$ $$;$$ $a$']],
    ['with operators and parameters', 'select 1 - 2 / $1; select 3', ['select 1 - 2 / $1', 'select 3']],
    ['if it is empty', '-- nothing', []],
  ])('is split %s', (_, sql, statements) => {
    expect(splitStatements(sql)).toEqual(statements);
  });

  it('keeps every word of the migrations', () => {
    const folder = join(ROOT, 'shared/postgres/migrations');
    for (const file of readdirSync(folder)) {
      const sql = readFileSync(join(folder, file), 'utf8');
      const words = (text: string) => text.replace(/--[^\n]*/g, '').match(/\w+/g);
      expect(words(splitStatements(sql).join(';\n'))).toEqual(words(sql));
    }
  });
});
