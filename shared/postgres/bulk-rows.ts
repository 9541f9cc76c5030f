import type { Queryable } from './pool.ts';

/**
 * The column types of bulk statements. Values: timestamptz as milliseconds, bytea as Buffer, json
 * as text, date as `2026-01-31`, text[] as string[]. `utf8` is a text whose bytes are stored in a
 * bytea.
 */
export type ColumnType =
  | 'text'
  | 'integer'
  | 'bigint'
  | 'double precision'
  | 'date'
  | 'bytea'
  | 'utf8'
  | 'timestamptz'
  | 'json'
  | 'text[]';

/** One column of a bulk statement, and the function that returns a row's value for the column. */
export interface Column<Row> {
  readonly name: string;
  readonly type: ColumnType;
  value(row: Row): unknown;
}

/**
 * Inserts the rows as one statement, and resolves with the rows that the statement returns.
 * `suffix` follows the rows (`on conflict …`, `returning …`). Sends no statement if there are no
 * rows.
 */
export async function insertRows<Row, Returned = never>(
  db: Queryable,
  table: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  suffix = '',
): Promise<Returned[]> {
  if (rows.length === 0) return [];
  const { text, values } = insertStatement(table, columns, rows, suffix);
  return (await db.query<Returned>(text, values)).rows;
}

/**
 * Returns the statement of {@link insertRows}. Rows must be sorted by their key, so that concurrent
 * statements cannot deadlock.
 */
export function insertStatement<Row>(
  table: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  suffix = '',
): { readonly text: string; readonly values: unknown[] } {
  const names = columns.map(({ name }) => `"${name}"`).join(', ');
  const { select, values } = unnestRows(columns, rows);
  return { text: `insert into ${table} (${names}) ${select} ${suffix}`, values };
}

export interface UnnestedRows {
  /** `select … from unnest(…)`: the rows, in the order given. */
  readonly select: string;
  /** One array per column, as text: the statement's parameters. */
  readonly values: string[];
}

/**
 * Returns rows as one array parameter per column, the fastest way to send many rows. Rows must be
 * sorted by their key, so that concurrent statements cannot deadlock.
 */
export function unnestRows<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): UnnestedRows {
  const names = columns.map(({ name }) => `"${name}"`);
  const parameters = columns.map(({ type }, i) => `$${i + 1}::${arrayTypeOf(type)}`);
  const selected = columns.map(({ type }, i) => expressionOf(type, names[i]!));
  return {
    select: `select ${selected.join(', ')} from unnest(${parameters.join(', ')}) as sent (${names.join(', ')})`,
    values: columns.map(({ type, value }) => arrayText(type, rows.map(value))),
  };
}

// Returns the array type of a parameter. unnest flattens arrays of arrays, so a text[] is sent as
// an array literal. For json, the type is text, because the driver would parse json. For utf8, the
// type is text, because hexadecimal is twice as long.
function arrayTypeOf(type: ColumnType): string {
  return type === 'text[]' || type === 'json' || type === 'utf8' ? 'text[]' : `${type}[]`;
}

function expressionOf(type: ColumnType, name: string): string {
  if (type === 'utf8') return `convert_to(${name}, 'UTF8')`;
  return type === 'text[]' || type === 'json' ? `${name}::${type}` : name;
}

/**
 * Returns the text form of a Postgres array; null and undefined become NULL. The driver's own
 * conversion also escapes numbers, which caused almost a fifth of the garbage of a busy process.
 */
export function arrayText(type: ColumnType, values: readonly unknown[]): string {
  const elementOf = ELEMENTS[type];
  return `{${values.map((value) => (value === null || value === undefined ? 'NULL' : elementOf(value))).join(',')}}`;
}

const ELEMENTS: Readonly<Record<ColumnType, (value: unknown) => string>> = {
  text: (value) => quoted(String(value)),
  json: (value) => quoted(String(value)),
  utf8: (value) => quoted(String(value)),
  'text[]': (value) => quoted(arrayText('text', value as readonly string[])),
  integer: String,
  bigint: String,
  'double precision': String,
  date: String,
  timestamptz: (value) => new Date(value as number).toISOString(),
  bytea: (value) => `"\\\\x${(value as Buffer).toString('hex')}"`,
};

function quoted(text: string): string {
  const escaped = text.includes('"') || text.includes('\\') ? text.replace(/[\\"]/g, '\\$&') : text;
  return `"${escaped}"`;
}
