import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';

const page = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
const sources = ['gateway', 'admin', 'workers', 'shared', 'embedded']
  .flatMap((directory) => typeScriptOf(join(ROOT, directory)))
  .map((file) => readFileSync(file, 'utf8'))
  .join('\n');

/** Rows of the table of log messages that deserve an alert: `| level | `msg` … |`. */
const alerts = [...page.matchAll(/^\| (fatal|error|warn) +\| `([^`]+)`/gm)].map(([, level, msg]) => ({
  level: level!,
  msg: msg!,
}));

describe('the page on operations', () => {
  it('lists alerts', () => expect(alerts.length).toBeGreaterThan(10));

  it.each(alerts)('names a line that is logged: $level "$msg"', ({ level, msg }) => {
    // The code fills in the state of this message.
    const text = msg.replace(/^(the event log) .*/, '$1 ');
    const calls = sources.split(new RegExp(`\\.${level}\\(`)).slice(1);
    expect(calls.some((call) => call.slice(0, CALL_LENGTH_MAX).includes(text))).toBe(true);
  });
});

describe('lines of the levels error and fatal', () => {
  const logged = [...sources.matchAll(/\.(error|fatal)\(\s*\{[^}]*\},\s*'([^']+)'/g)].map(
    ([, level, msg]) => ({
      level: level!,
      msg: msg!,
    }),
  );

  it('are found in the code', () => expect(logged.length).toBeGreaterThan(5));

  it.each(logged)('are on the page: $level "$msg"', (line) => {
    expect(alerts).toContainEqual(line);
  });
});

describe('the tables on the page', () => {
  const migrations = join(ROOT, 'shared/postgres/migrations');
  const created = readdirSync(migrations)
    .map((file) => readFileSync(join(migrations, file), 'utf8'))
    .flatMap((sql) => [...sql.matchAll(/^create table (\w+)/gim)].map(([, table]) => table!));
  const [, section = ''] = /^## Tables\n(.*?)^## /ms.exec(page) ?? [];
  const rows = [...section.matchAll(/^\| (`.*?) \|/gm)].map(([, names]) => names!);
  const named = rows.flatMap((names) => [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name));

  it('are those of the migrations', () => {
    expect(named.toSorted()).toEqual([...created, 'schema_migrations'].toSorted());
  });
});

/** Number of characters after a log call's name within which its message is found. */
const CALL_LENGTH_MAX = 400;

function typeScriptOf(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => join(directory, file));
}
