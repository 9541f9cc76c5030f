/**
 * The column types of bulk statements. Values: timestamptz as milliseconds, bytea as Buffer, json
 * as text, text[] as string[].
 */
export type ColumnType =
  | 'text'
  | 'integer'
  | 'bigint'
  | 'double precision'
  | 'bytea'
  | 'timestamptz'
  | 'json'
  | 'text[]';

/** One column of a bulk statement, and where a row's value for it comes from. */
export interface Column<Row> {
  readonly name: string;
  readonly type: ColumnType;
  value(row: Row): unknown;
}

export interface UnnestedRows {
  /** The columns' names, quoted, in order: for the list after `insert into`. */
  readonly names: string;
  /** `select … from unnest(…)`: the rows, in the order given. */
  readonly select: string;
  /** One array per column, as text: the statement's parameters. */
  readonly values: string[];
}

/**
 * Returns rows as one array parameter per column, the fastest way to send many. Rows must be sorted
 * by their key, so that concurrent statements cannot deadlock.
 */
export function unnestRows<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): UnnestedRows {
  const names = columns.map((column) => `"${column.name}"`);
  const parameters = columns.map((column, i) => `$${i + 1}::${arrayTypeOf(column.type)}`);
  const selected = columns.map((column, i) => `${names[i]}${castOf(column.type)}`);
  return {
    names: names.join(', '),
    select: `select ${selected.join(', ')} from unnest(${parameters.join(', ')}) as sent (${names.join(', ')})`,
    values: columns.map(({ type, value }) => arrayText(type, rows.map(value))),
  };
}

/**
 * Returns the statement that inserts the rows; `suffix` follows it (`on conflict …`, `returning
 * …`).
 */
export function insertRows<Row>(
  table: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  suffix = '',
): { text: string; values: string[] } {
  const { names, select, values } = unnestRows(columns, rows);
  return { text: `insert into ${table} (${names}) ${select} ${suffix}`, values };
}

// unnest flattens arrays of arrays, so text[] travels as array literals; json as text, or the
// driver would parse it.
function arrayTypeOf(type: ColumnType): string {
  return type === 'text[]' || type === 'json' ? 'text[]' : `${type}[]`;
}

function castOf(type: ColumnType): string {
  return type === 'text[]' || type === 'json' ? `::${type}` : '';
}

/**
 * Returns the text form of a Postgres array; null and undefined become NULL. The driver's own
 * conversion escapes numbers too, which was almost a fifth of the garbage of a busy process.
 */
export function arrayText(type: ColumnType, values: readonly unknown[]): string {
  const elementOf = ELEMENTS[type];
  return `{${values.map((value) => (value === null || value === undefined ? 'NULL' : elementOf(value))).join(',')}}`;
}

const ELEMENTS: Readonly<Record<ColumnType, (value: unknown) => string>> = {
  text: (value) => quoted(String(value)),
  json: (value) => quoted(String(value)),
  'text[]': (value) => quoted(arrayText('text', value as readonly string[])),
  integer: String,
  bigint: String,
  'double precision': String,
  timestamptz: (value) => new Date(value as number).toISOString(),
  bytea: (value) => `"\\\\x${(value as Buffer).toString('hex')}"`,
};

function quoted(text: string): string {
  const escaped = text.includes('"') || text.includes('\\') ? text.replace(/[\\"]/g, '\\$&') : text;
  return `"${escaped}"`;
}
