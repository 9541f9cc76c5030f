import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DISTRIBUTED, NOT_DISTRIBUTED } from '../../cli/distribute/tables.ts';
import { ROOT } from '../support/program.ts';

/** Migrations up to this one are not applied to tables that are distributed already. */
const LAST_BEFORE_RULES = 33;

const FOLDER = join(ROOT, 'shared/postgres/migrations');
const migrations = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.sql'))
  .sort()
  .map((file) => ({ file, sql: withoutComments(readFileSync(join(FOLDER, file), 'utf8')) }));
const tables = migrations.flatMap(({ sql }) => tablesOf(sql));

interface Rule {
  readonly name: string;
  /** Returns the parts of a migration that break the rule. */
  readonly broken: (sql: string) => readonly string[];
  readonly bad: readonly string[];
  readonly good: readonly string[];
}

/** What a database that is sharded by tenant (Citus) refuses once its tables are distributed. */
const RULES: readonly Rule[] = [
  {
    name: 'one subcommand per alter table',
    broken: (sql) => alterations(sql).filter((statement) => withoutBrackets(statement).includes(',')),
    bad: [
      'alter table agents add column a text, add column b text;',
      "execute format('alter table %I add column a int, add column b int', name);",
      'alter table agents\n  drop constraint c,\n  add constraint c check (a > 0);',
    ],
    good: [
      'alter table agents add column a numeric(5, 2);',
      'alter table agents add constraint c check (a in (1, 2));',
      "execute format('alter table %I add column a int', name, other);",
    ],
  },
  {
    name: 'no constraint with a new column',
    broken: (sql) =>
      alterations(sql).filter((statement) =>
        /\badd (column )?(?!constraint\b).*\b(check|unique|references|primary key|generated|serial|bigserial)\b/i.test(
          statement,
        ),
      ),
    bad: [
      'alter table agents add column a integer check (a > 0);',
      'alter table agents add a text unique;',
      'alter table agents add column a text references tenants (tenant_id);',
      'alter table agents add column a bigserial;',
    ],
    good: [
      "alter table agents add column a text not null default 'none';",
      'alter table agents add constraint agents_a check (a > 0);',
    ],
  },
  {
    name: 'constraints of existing tables have names',
    broken: (sql) =>
      alterations(sql).filter((statement) =>
        /\badd (check|unique|primary|foreign|exclude)\b/i.test(statement),
      ),
    bad: ['alter table agents add check (a > 0);', 'alter table agents add unique (tenant_id, a);'],
    good: ['alter table agents add constraint agents_a unique (tenant_id, a);'],
  },
  {
    name: 'no triggers, rules or unlogged tables',
    broken: (sql) => sql.match(/\bcreate (or replace )?(trigger|rule|unlogged table)\b/gi) ?? [],
    bad: [
      'create trigger t before insert on agents execute function f();',
      'create unlogged table t (a int);',
    ],
    good: ["comment on table agents is 'a trigger';"],
  },
  {
    name: 'unique indexes of distributed tables contain the tenant',
    broken: (sql) =>
      [...sql.matchAll(/\bcreate unique index (?:concurrently )?(?:if not exists )?\w+ on (\w+)[^;]*/gi)]
        .filter(([statement, table]) => isDistributed(table!) && !/\btenant_id\b/.test(statement))
        .map(([statement]) => statement),
    bad: ['create unique index agents_by_name on agents (agent_name);'],
    good: [
      'create unique index agents_by_name on agents (tenant_id, agent_name);',
      'create unique index api_keys_by_secret on api_keys (secret_sha256);',
    ],
  },
];

describe('migrations', () => {
  it.each(RULES)('break the rule "$name" in its bad examples only', ({ broken, bad, good }) => {
    expect(bad.filter((sql) => broken(sql).length === 0)).toEqual([]);
    expect(good.filter((sql) => broken(sql).length > 0)).toEqual([]);
  });

  it.each(RULES)(`follow the rule "$name" from number ${LAST_BEFORE_RULES + 1}`, ({ broken }) => {
    const faults = migrations
      .filter(({ file }) => Number.parseInt(file, 10) > LAST_BEFORE_RULES)
      .flatMap(({ file, sql }) => broken(sql).map((statement) => ({ file, statement })));
    expect(faults).toEqual([]);
  });

  it('say of each table whether it is distributed', () => {
    const known = [...DISTRIBUTED, ...Object.keys(NOT_DISTRIBUTED)].sort();
    expect(tables.map(({ name }) => name).sort()).toEqual(known);
  });

  it('name the tenant in each key of a distributed table', () => {
    const faults = tables.filter(
      ({ name, columns }) =>
        isDistributed(name) &&
        !(
          /^ {2}tenant_id text not null/m.test(columns) &&
          (columns.match(/(primary key|unique)\b.*/g) ?? []).every((key) => key.includes('tenant_id'))
        ),
    );
    expect(faults).toEqual([]);
  });
});

function isDistributed(table: string): boolean {
  return (DISTRIBUTED as readonly string[]).includes(table);
}

function withoutComments(sql: string): string {
  return sql.replace(/--[^\n]*/g, '');
}

/** Returns the `alter table` statements, also those that a block executes as text, in one line each. */
function alterations(sql: string): string[] {
  const found = sql.matchAll(/\balter table\b(?:[^;']|'(?:[^']|'')*')*/gi);
  return [...found].map(([statement]) => statement.replace(/\s+/g, ' ').replace(/', .*/, ''));
}

/** Removes what is in brackets or quotes, such as `(5, 2)`. */
function withoutBrackets(statement: string): string {
  const inner = statement.replace(/'[^']*'/g, '').replace(/\([^()]*\)/g, '');
  return inner === statement ? statement : withoutBrackets(inner);
}

/** Returns the tables that a migration creates; not the partitions of one. */
function tablesOf(sql: string): { readonly name: string; readonly columns: string }[] {
  return [...sql.matchAll(/^create table (\w+) \(\n(.*?)^\)/gms)].map(([, name, columns]) => ({
    name: name!,
    columns: columns!,
  }));
}
