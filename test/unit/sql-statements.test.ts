import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DISTRIBUTED, NOT_DISTRIBUTED } from '../../cli/distribute/tables.ts';
import { ROOT } from '../support/program.ts';

/**
 * One Postgres and a Postgres that is sharded by tenant (Citus) must take the same statements. The
 * rules below exclude statements that a sharded one refuses or answers differently.
 */

const FOLDERS = ['shared', 'gateway', 'admin', 'workers', 'cli', 'embedded'];

const SHARDED: readonly string[] = DISTRIBUTED;

interface Rule {
  readonly name: string;
  /** Returns whether the statement breaks the rule. */
  readonly broken: (statement: string) => boolean;
  /** Statements that break the rule. */
  readonly bad: readonly string[];
  /** Similar statements that follow the rule. */
  readonly good: readonly string[];
}

const STATEMENT =
  /^\(?(select|insert|update|delete|with|merge|create|alter|drop|begin|commit|rollback|set|listen|declare|fetch|close|lock|truncate|copy) \S|^(commit|rollback)$/i;

const KEYWORDS =
  'ALTER|AND|ANY|AS|ASC|BEGIN|BETWEEN|BY|CASE|COMMIT|CONFLICT|CREATE|CROSS|DELETE|DESC|DISTINCT|DO|ELSE|END|EXISTS|FOR|FROM|GROUP|HAVING|IN|INSERT|INTO|IS|JOIN|LEFT|LIMIT|LOCAL|LOCKED|NOT|NOTHING|NULL|ON|OR|ORDER|RETURNING|ROLLBACK|SELECT|SET|SKIP|TABLE|THEN|UNION|UPDATE|USING|VALUES|WHEN|WHERE|WITH';

const LOCKS = /\bfor (no key )?(update|share)\b/;
const ONE_TENANT = /\btenant_id = (\$\d|§|tenantOf\()/;
/** A statement that inserts rows, but not as lists of values. */
const INSERTS_ROWS_OF = /\binsert into\b(?!.*\) values\b).*\b(from|join) /;
/** Functions of columns that Citus refuses where rows are changed, among those that are used. */
const NOT_IMMUTABLE =
  'epochMs|extract|to_char|date_trunc|(to|row_to)_jsonb?|jsonb?_(agg|object_agg|build_object|build_array)';
const CHANGES = /(^|\()\s*(insert into|update|delete from)\b/;

const RULES: readonly Rule[] = [
  {
    name: 'lower case',
    broken: (statement) => new RegExp(`\\b(${KEYWORDS})\\b`).test(withoutQuoted(statement)),
    bad: ['SELECT name from tenants', 'select name from tenants WHERE true', 'begin; SET LOCAL x = 1'],
    good: [`select "SELECT", 'AND' from tenants`],
  },
  {
    name: 'times come from the code',
    broken: (statement) =>
      /\b(now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\(|\b(current_(timestamp|date|time)|localtime(stamp)?)\b|\binterval\b/.test(
        withoutQuoted(statement),
      ),
    bad: [
      'update t set updated_at = now() where tenant_id = $1',
      'select current_timestamp',
      `select 1 where due_at + interval '1 hour' < $1`,
      'select $1::interval',
    ],
    good: [`select 'now()' as "interval" from log_topics where updated_at <= $1`],
  },
  {
    name: 'names the tenant',
    broken: (statement) =>
      usesSharded(statement) &&
      !(
        /^insert into/.test(statement) && !/\bselect\b/.test(statement)
          ? /^insert into \S+ (as \w+ )?\([^)]*\btenant_id\b/
          : /\b(where|on|and)\s+\(?(\w+\.)?tenant_id = (\$\d|\w+\.tenant_id\b|any ?\(\$\d|tenantOf\()/
      ).test(statement),
    bad: [
      'select 1 from event_keys where key = $1',
      'update credentials set ciphertext = null where event_id = $1',
      'insert into webhook_queue (endpoint_id) values ($1)',
      'delete from webhook_queue where endpoint_id = $1 returning tenant_id',
      'select 1 from § c where c.id = $1',
    ],
    good: [
      'select 1 from event_keys where tenant_id = $1',
      'select 1 from unnest($1::text[]) as w (tenant_id) join credentials c on c.tenant_id = w.tenant_id',
      'insert into webhook_queue (tenant_id, endpoint_id) values ($1, $2)',
      'select 1 from log_positions where topic = $1',
    ],
  },
  {
    name: 'locks rows of one tenant',
    broken: (statement) => usesSharded(statement) && LOCKS.test(statement) && !ONE_TENANT.test(statement),
    bad: [
      'select 1 from unnest($1::text[]) as w (tenant_id) join agents a on a.tenant_id = w.tenant_id for update of a',
      'delete from event_keys where key in (select key from event_keys limit 1 for update skip locked)',
    ],
    good: [
      'select 1 from agents where tenant_id = $1 for update',
      'select 1 from log_positions where topic = $1 for update',
    ],
  },
  {
    // A join of both kinds of tables reads the other one apart, and takes no lock.
    name: 'locks sharded tables only, or none',
    broken: (statement) => LOCKS.test(statement) && usesSharded(statement) && usesUnsharded(statement),
    bad: [
      'select 1 from webhook_recoveries r left join webhook_endpoints e on e.tenant_id = r.tenant_id where r.tenant_id = $1 for update of r',
    ],
    good: [
      'select 1 from webhook_recoveries where tenant_id = $1 for update skip locked',
      'select 1 from unnest($2::text[]) as w (id) join agents a on a.tenant_id = $1 and a.external_agent_id = w.id for update of a',
    ],
  },
  {
    // Citus copies the rows of a query to the shards: a rule of the table that they break is reported
    // without its SQLSTATE, and ON CONFLICT waits for the batches of all other tenants.
    name: 'inserts given rows with bulk-rows.ts',
    broken: (statement) => usesSharded(statement) && INSERTS_ROWS_OF.test(statement),
    bad: [
      'insert into agents (tenant_id) select t from unnest($1::text[]) as s (t)',
      'with sent as (select 1), i as (insert into agents (tenant_id) select t from sent) select 1',
      'with sent as (§) insert into § (§) select § from sent',
    ],
    good: [
      'insert into agents (tenant_id) values ($1)',
      'insert into log_partitions (topic) select t from unnest($1::text[]) as s (t)',
    ],
  },
  {
    // A change of several shards waits for all transactions that have made another one.
    name: 'changes rows of one tenant, or with onShards',
    broken: (statement) =>
      usesSharded(statement) && CHANGES.test(statement) && changesOfShards(statement) > tenantsOf(statement),
    bad: [
      'update agents a set name = s.name from unnest($1::text[]) as s (t) where a.tenant_id = s.t',
      'delete from event_keys where tenant_id = any($1::text[])',
      'with sent as (select 1), u as (update § c set a = 1 from sent where c.tenant_id = sent.tenant_id returning 1) select 1 from u',
    ],
    good: [
      'update agents set name = $2 where tenant_id = $1',
      'update event_keys k set § from (§) as new where k.tenant_id = tenantOf(new) and k.key = new.key',
      'delete from log_positions where topic = $1',
    ],
  },
  {
    name: 'steps through rows of one tenant',
    broken: (statement) =>
      /\bwith recursive\b/.test(statement) && usesSharded(statement) && !ONE_TENANT.test(statement),
    bad: ['with recursive q as (select 1 from webhook_queue union all select 1 from q) select 1 from q'],
    good: [
      'with recursive q as (select 1 from webhook_queue where tenant_id = $1 union all select 1 from q) select 1',
    ],
  },
  {
    // Subqueries that depend on rows of a CTE cannot be sent to the shards.
    name: 'compares tenants with a parameter where the rows are those of a CTE',
    broken: (statement) => {
      const ctes = [...statement.matchAll(/\b(\w+) as (materialized )?\(/g)].map(([, name]) => name!);
      return [...statement.matchAll(/\(select [^()]*\btenant_id = (\w+)\.tenant_id/g)].some(([, name]) =>
        ctes.includes(name!),
      );
    },
    bad: [
      'with e as (select 1) select exists (select 1 from webhook_queue p where p.tenant_id = e.tenant_id and p.parked) from e',
    ],
    good: [
      'with e as (select 1) select exists (select 1 from webhook_queue p where p.tenant_id = tenantOf(e) and p.parked) from e',
      'select exists (select 1 from webhook_queue d where d.tenant_id = e.tenant_id) from webhook_endpoints e',
    ],
  },
  {
    // Where Citus plans such a subquery apart, its result has no columns, which it refuses.
    name: 'selects a column',
    broken: (statement) => /\bselect from\b/.test(statement),
    bad: ['select exists (select from agents where tenant_id = $1) as found'],
    good: ['select exists (select 1 from agents where tenant_id = $1) as found'],
  },
  {
    name: 'sets and returns what immutable functions compute',
    broken: (statement) =>
      new RegExp(
        `\\breturning\\b[^)]*(\\((?!select)[^)]*\\)[^)]*)*\\b(${NOT_IMMUTABLE})\\(|\\bset\\b((?!\\bwhere\\b).)*\\b(${NOT_IMMUTABLE})\\(`,
      ).test(statement),
    bad: [
      'update api_keys set a = 1 where b = $1 returning epochMs(revoked_at) as "revokedAtMs"',
      'update t set patch = (select jsonb_agg(a) from jsonb_array_elements(patch) as a) where tenant_id = $1',
    ],
    good: [
      'update api_keys set a = 1 where b = $1 returning immutableEpochMs(revoked_at) as "revokedAtMs"',
      'with t as (delete from data_quality_deltas where tenant_id = $1 returning day) select to_char(day) from t',
      'update t set a = $2 where tenant_id = $1 and extract(epoch from b) > $3',
    ],
  },
  {
    name: 'uses what both databases have',
    broken: (statement) =>
      /^merge\b|\blateral\b|\btrigger\b|\bunlogged\b|\bon constraint\b|\bincluding all\b|\bdetach partition .*\b(concurrently|finalize)\b/.test(
        withoutQuoted(statement),
      ),
    bad: [
      'merge into agents using sent on true when matched then do nothing',
      'select 1 from a cross join lateral (select 1) as b',
      'create trigger t before insert on agents execute function f()',
      'create unlogged table t (id int)',
      'insert into t values ($1) on conflict on constraint t_pkey do nothing',
      'create table t_1 (like t including all)',
      'alter table t detach partition t_1 concurrently',
    ],
    good: ['select "lateral" from tenants'],
  },
  {
    name: 'counts an upsert by its returned rows',
    broken: (statement) =>
      /\binsert into\b(?!.*\) values\b).*\bon conflict\b/.test(statement) &&
      !/\bon conflict\b.*\breturning\b/.test(statement),
    bad: ['insert into t (a) select a from unnest($1::int[]) as s (a) on conflict (a) do nothing'],
    good: [
      'insert into t (a) select a from unnest($1::int[]) as s (a) on conflict (a) do nothing returning a',
      'insert into t (a) values ($1) on conflict (a) do nothing',
    ],
  },
  {
    name: 'names its columns',
    broken: (statement) => /\b(select|returning)\s+([^()]*,\s*)?(\w+\.)?\*/.test(statement),
    bad: ['select * from tenants', 'delete from t where a = $1 returning *', 'select a, t.* from t'],
    good: ['select count(*) from tenants', 'select a * 2 from t'],
  },
];

/**
 * Statements that may break a rule, with the reason. A part of its text identifies each statement.
 */
const EXCEPTIONS: readonly {
  readonly file: string;
  readonly rule: string;
  readonly part: string;
  readonly reason: string;
}[] = [
  {
    file: 'shared/postgres/times.ts',
    rule: 'times come from the code',
    part: 'clock_timestamp()',
    reason: "compares the clock of the database with the process's own",
  },
  {
    file: 'shared/postgres/server-facts.ts',
    rule: 'times come from the code',
    part: 'clock_timestamp()',
    reason: 'reports how far the clock of the database is off',
  },
  {
    file: 'shared/postgres/begin-transaction.ts',
    rule: 'times come from the code',
    part: "current_setting('statement_timeout')::interval",
    reason: 'compares a setting, and reads no table',
  },
  ...(
    [
      ['shared/postgres/encrypted-samples.ts', 'from webhook_endpoints', 'samples the keys of all tenants'],
      ['shared/postgres/encrypted-samples.ts', 'from credentials', 'samples the keys of all tenants'],
      ['cli/sql/encrypted-values.ts', "select 'credentials' as of", 'counts the values of all tenants'],
      ['cli/sql/encrypted-values.ts', 'select distinct key_id', 'samples the keys of all tenants'],
      ['cli/sql/encrypted-values.ts', 'where key_id = $1', 'samples the keys of all tenants'],
      ['cli/sql/encrypted-values.ts', 'key_id <> $1', 'finds the values of all tenants'],
      ['cli/sql/encrypted-endpoints.ts', 'key_id <> $1', 'finds the values of all tenants'],
      [
        'workers/sql/endpoint-secrets.ts',
        'previous_secret_until <= $1',
        'finds what to erase, of all tenants',
      ],
      ['workers/sql/credentials.ts', 'where expires_at <= $1', 'finds what to sweep, per tenant'],
      ['workers/sql/event-keys.ts', 'where expires_at <= $1', 'finds what to sweep, per tenant'],
      ['shared/postgres/retention/old-rows.ts', 'where accepted_at < $1', 'finds what to delete, per tenant'],
      [
        'shared/postgres/retention/webhook-weeks.ts',
        "state = 'pending'",
        'decides about a week of all tenants',
      ],
      ['workers/sql/message-sent-deltas.ts', 'group by tenant_id', 'finds what to compact, per tenant'],
      ['shared/postgres/export-page.ts', 'limit 1', 'finds the next position with a row, of any tenant'],
      ['workers/webhooks/sql/totals.ts', 'as queued', 'counts the deliveries of all tenants'],
      ['workers/webhooks/sql/totals.ts', 'as disabled', 'counts the endpoints of all tenants'],
      ['workers/webhooks/sql/backfill-queue.ts', 'select distinct', 'finds the endpoints of all tenants'],
      [
        'workers/webhooks/sql/history.ts',
        'with ended as (§)',
        'the statement that it contains names the tenant',
      ],
      [
        'workers/webhooks/sql/history.ts',
        'insert into webhook_deliveries',
        'the statement before it names the tenant',
      ],
      [
        'shared/postgres/message-dimensions.ts',
        'with new_pairs as materialized (§)',
        'each of its parts names the tenant',
      ],
      ['shared/postgres/bulk-rows.ts', 'insert into § (§)', 'the columns are those of its callers'],
      [
        'workers/webhooks/sql/due-endpoints.ts',
        'with recursive queued',
        'finds the endpoints of all tenants',
      ],
    ] as const
  ).map(([file, part, reason]) => ({ file, rule: 'names the tenant', part, reason })),
  ...(
    [
      ['shared/postgres/bulk-rows.ts', 'insert into § (§)', 'is that helper; not sent to Citus'],
      [
        'workers/sql/webhook-events.ts',
        'insert into webhook_queue',
        'the server expands subscribers; no row can break a rule of the queue, and nothing waits for it',
      ],
      [
        'workers/webhooks/sql/history.ts',
        'insert into webhook_deliveries',
        'of one tenant; the dispatcher takes an internal error of Citus for a missing week',
      ],
      ['workers/webhooks/sql/history.ts', 'with ended as (§)', 'as the statement that it contains'],
      [
        'workers/webhooks/sql/results.ts',
        'insert into webhook_attempts',
        'of one tenant; the dispatcher takes an internal error of Citus for a missing week',
      ],
      ['shared/postgres/deliveries/requeue.ts', 'with moved as', 'of one tenant, in a short transaction'],
      ['workers/webhooks/sql/backfill-queue.ts', 'with waiting as', 'of one tenant, in a short transaction'],
      ['cli/sql/erase-counts.ts', 'with chosen as', 'of one tenant, in a short transaction'],
      ['cli/sql/erase-event-keys.ts', 'with gone as', 'of one tenant, in a short transaction'],
      ['shared/postgres/retention/fold-history.ts', 'where h.tenant_id = $1', 'its shard runs it as a whole'],
      ['cli/sql/message-recount.ts', 'insert into conversation_id_pairs', 'each shard runs it as a whole'],
    ] as const
  ).map(([file, part, reason]) => ({ file, rule: 'inserts given rows with bulk-rows.ts', part, reason })),
  ...(
    [
      ['workers/sql/endpoint-secrets.ts', 'previous_secret_key_id = null', 'a transaction of its own'],
      ['cli/sql/encrypted-values.ts', 'c.ciphertext = sent.before', 'a transaction of its own'],
      ['cli/sql/message-recount.ts', 'quarter_hour >= $2', 'a command, which workers wait for in any case'],
      [
        'cli/sql/message-recount.ts',
        'minutes in (15, 60, 1440)',
        'a command, which workers wait for in any case',
      ],
    ] as const
  ).map(([file, part, reason]) => ({
    file,
    rule: 'changes rows of one tenant, or with onShards',
    part,
    reason,
  })),
  ...['uses what both databases have', 'steps through rows of one tenant'].map((rule) => ({
    file: 'workers/webhooks/sql/due-endpoints.ts',
    rule,
    part: 'with recursive queued',
    reason: 'steps over rows that may be millions, by the index; not sent to Citus',
  })),
  {
    file: 'shared/postgres/api-key-lookup.ts',
    rule: 'names its columns',
    part: 'select found.*',
    reason: 'the columns are named in the subquery, and hashed together',
  },
];

const statements = sources().flatMap(({ file, source }) =>
  statementsOf(source).map((statement) => ({ file, statement })),
);

describe('SQL statements', () => {
  it.each(RULES)('break the rule "$name" in its bad examples only', ({ broken, bad, good }) => {
    expect(bad.filter((statement) => !broken(statement))).toEqual([]);
    expect(good.filter(broken)).toEqual([]);
  });

  it(`are found in the sources: ${statements.length}`, () => {
    expect(statements.length).toBeGreaterThan(360);
    expect(SHARDED).toContain('event_keys');
    expect(SHARDED).not.toContain('log_positions');
  });

  it('are read from nested templates and named constants', () => {
    const source = `
      // select 'comment'
      const WHERE = \`tenant_id = $1\`;
      const text = \`select \${names.map((name) => \`"\${name}"\`).join(', ')} from t where \${WHERE}\`;
      const other = 'update t set a = 1'; /* select */ const words = 'not sql';
    `;
    expect(statementsOf(source)).toEqual(['select § from t where tenant_id = $1', 'update t set a = 1']);
  });

  it.each(RULES)('follow the rule "$name", exceptions aside', ({ name, broken }) => {
    const allowed = EXCEPTIONS.filter(({ rule }) => rule === name);
    const faults = statements
      .filter(({ statement }) => broken(statement))
      .filter(
        ({ file, statement }) =>
          !allowed.some((exception) => exception.file === file && statement.includes(exception.part)),
      );
    expect(faults).toEqual([]);
  });

  it('need every exception', () => {
    const unneeded = EXCEPTIONS.filter(
      ({ file, rule, part }) =>
        !statements.some(
          (found) =>
            found.file === file &&
            found.statement.includes(part) &&
            RULES.find(({ name }) => name === rule)!.broken(found.statement),
        ),
    );
    expect(unneeded).toEqual([]);
  });

  it('are in sql and postgres folders only', () => {
    const elsewhere = otherSources().flatMap(({ file, source }) =>
      statementsOf(source)
        .filter((text) => /^(select .* from|insert into|update \S+ set|delete from|with \w+ as)\b/.test(text))
        .map((text) => ({ file, text })),
    );
    expect(elsewhere).toEqual([]);
  });
});

function tablesOf(statement: string): string[] {
  const tables = statement.matchAll(/\b(?:from|join|update|into|using)\s+([a-z_]+|§)(?=[\s(]|$)/g);
  return [...tables].map(([, table]) => table!);
}

function usesSharded(statement: string): boolean {
  return tablesOf(statement).some((table) => table === '§' || SHARDED.includes(table));
}

function usesUnsharded(statement: string): boolean {
  return tablesOf(statement).some((table) => table in NOT_DISTRIBUTED);
}

/** Returns the number of updates and deletes of sharded tables. */
function changesOfShards(statement: string): number {
  const changes = statement.matchAll(/(?:^|\()\s*(?:update|delete from)\s+([a-z_]+|§)(?=[\s(]|$)/g);
  return [...changes].filter(([, table]) => table === '§' || SHARDED.includes(table!)).length;
}

/** Returns how often the statement compares the tenant with a parameter. */
function tenantsOf(statement: string): number {
  return [...statement.matchAll(/\btenant_id = (\$\d|tenantOf\()/g)].length;
}

function withoutQuoted(statement: string): string {
  return statement.replace(/'[^']*'|"[^"]*"/g, "''");
}

function allSources(): { readonly file: string; readonly source: string }[] {
  return FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.includes('node_modules'))
      .map((file) => join(folder, file)),
  ).map((file) => ({ file, source: readFileSync(join(ROOT, file), 'utf8') }));
}

function sources() {
  return allSources().filter(({ file }) => /\/(sql|postgres)\//.test(file));
}

function otherSources() {
  return allSources().filter(({ file }) => !/\/(sql|postgres)\//.test(file));
}

/**
 * Returns a source's literals that are SQL statements, each in one line. An expression in a
 * template becomes §, unless it names a literal of the same file.
 */
function statementsOf(source: string): string[] {
  const constants = new Map<string, string>();
  const literals = literalsOf(source);
  for (const { name, text } of literals) if (name) constants.set(name, text);
  return literals
    .map(({ text }) =>
      resolve(text, constants)
        .replace(/--[^\n]*/g, ' ')
        .replace(/\s+/g, ' ')
        .trim(),
    )
    .filter((text) => STATEMENT.test(text));
}

/** Replaces `§NAME§` by the constant's text, recursively. */
function resolve(text: string, constants: ReadonlyMap<string, string>): string {
  return text.replace(/§([A-Z_]*)§/g, (_, name: string) => {
    const constant = constants.get(name);
    return constant === undefined ? '§' : resolve(constant, constants);
  });
}

interface Literal {
  /** Name of the constant to which the literal is assigned. */
  readonly name: string | undefined;
  /**
   * The text. `§NAME§` stands for an expression that is a constant's name, `f(x)` for `f('x')` and
   * `f('x', values)`, and `§§` for any other expression.
   */
  readonly text: string;
}

/**
 * Returns the string literals and templates of a source, including those inside templates'
 * expressions.
 */
function literalsOf(source: string): Literal[] {
  const literals: Literal[] = [];
  let at = 0;
  const code = (end: string | undefined): void => {
    let depth = 0;
    while (at < source.length) {
      const rest = source.slice(at, at + 2);
      const char = source[at]!;
      if (rest === '//') at = endOf('\n');
      else if (rest === '/*') at = endOf('*/') + 1;
      else if (char === '/') at += Math.max(0, regExpLength() - 1);
      else if (char === "'" || char === '"') quoted(char);
      else if (char === '`') template();
      else if (char === end && depth === 0) return;
      else if (char === '{') depth += 1;
      else if (char === '}') depth -= 1;
      at += 1;
    }
  };
  const endOf = (text: string): number => {
    const found = source.indexOf(text, at + 2);
    return found === -1 ? source.length : found;
  };
  const nameBefore = (start: number): string | undefined =>
    /\bconst (\w+)(?:: [^=]+)? =\s*$/.exec(source.slice(Math.max(0, start - 200), start))?.[1];
  /**
   * Returns the length of the regular expression at this position; 0 if the slash is a division.
   */
  const regExpLength = (): number => {
    if (!/[=(,:[!&|?{};]\s*$/.test(source.slice(Math.max(0, at - 20), at))) return 0;
    return /^\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/[\\\n])+\//.exec(source.slice(at, at + 500))?.[0].length ?? 0;
  };
  const quoted = (quote: string): void => {
    const start = at;
    for (at += 1; at < source.length && source[at] !== quote; at += 1) if (source[at] === '\\') at += 1;
    literals.push({ name: nameBefore(start), text: source.slice(start + 1, at) });
  };
  const template = (): void => {
    const start = at;
    let text = '';
    for (at += 1; at < source.length && source[at] !== '`'; at += 1) {
      if (source[at] === '\\') at += 1;
      if (source.startsWith('${', at)) {
        const from = at + 2;
        at = from;
        code('}');
        const expression = source.slice(from, at);
        const [call] = /^\w+\('[^']*'(, values)?\)$/.exec(expression) ?? [];
        text += call?.replace(/'|, values/g, '') ?? `§${/^[A-Z_]+$/.test(expression) ? expression : ''}§`;
      } else text += source[at];
    }
    literals.push({ name: nameBefore(start), text });
  };
  code(undefined);
  return literals;
}
