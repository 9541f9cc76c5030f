import { LARGE_FROM, runAtOnce, runInSlices } from '../map-in-slices.ts';
import { arrayParameter, type ColumnType } from './array-parameter.ts';
import { columnParameter, type EncodedRow } from './encoded-rows.ts';
import type { Queryable } from './pool.ts';

/** One column of a bulk statement, and the value of the column in each row. */
export type Column<Row> = {
  readonly name: string;
  readonly type: ColumnType;
} & (
  | { value(row: Row): unknown }
  /** The value of all rows, which is sent once. */
  | { readonly same: unknown }
  /** A value of an encoded row. `missing` is the value of rows without one; default: NULL. */
  | { encoded(row: Row): EncodedRow; readonly index: number; readonly missing?: unknown }
);

/**
 * Inserts the rows as one statement, and resolves with the rows that the statement returns. Yields
 * to the event loop while it encodes many rows.
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
  const unnested = await unnestInSlices(columns, rows);
  return (await db.query<Returned>(insertText(table, columns, unnested, suffix), unnested.values)).rows;
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
  const unnested = unnestRows(columns, rows);
  return { text: insertText(table, columns, unnested, suffix), values: unnested.values };
}

function insertText<Row>(
  table: string,
  columns: readonly Column<Row>[],
  { select }: UnnestedRows,
  suffix: string,
): string {
  const names = columns.map(({ name }) => `"${name}"`).join(', ');
  return `insert into ${table} (${names}) ${select} ${suffix}`;
}

export interface UnnestedRows {
  /** `select … from unnest(…)`: the rows, in the order given. */
  readonly select: string;
  /** The statement's parameters: one per column, an array unless all rows have the same value. */
  readonly values: unknown[];
}

/**
 * Returns rows as one array parameter per column, the fastest way to send many rows. Rows must be
 * sorted by their key, so that concurrent statements cannot deadlock.
 */
export function unnestRows<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): UnnestedRows {
  return runAtOnce(unnestColumnByColumn(columns, rows));
}

/** Computes {@link unnestRows}, and yields to the event loop in between. */
export function unnestInSlices<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): Promise<UnnestedRows> {
  return runInSlices(unnestColumnByColumn(columns, rows), { isLarge: rows.length >= LARGE_FROM });
}

function* unnestColumnByColumn<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): Generator<undefined, UnnestedRows, undefined> {
  const selected: string[] = [];
  const arrays: string[] = [];
  const arrayNames: string[] = [];
  const values: unknown[] = [];
  for (const [i, column] of columns.entries()) {
    const { type } = column;
    const name = `"${column.name}"`;
    if ('same' in column) {
      selected.push(`$${i + 1}::${type} as ${name}`);
      values.push(type === 'timestamptz' ? new Date(column.same as number) : column.same);
      continue;
    }
    selected.push(type === 'text[]' || type === 'json' ? `${name}::${type}` : name);
    arrays.push(`$${i + 1}::${arrayTypeOf(type)}`);
    arrayNames.push(name);
    values.push(
      'encoded' in column
        ? columnParameter(type, rows, column.encoded, column.index, column.missing)
        : arrayParameter(type, rows.map(column.value, column)),
    );
    yield;
  }
  const select = `select ${selected.join(', ')} from unnest(${arrays.join(', ')}) as sent (${arrayNames.join(', ')})`;
  return { select, values };
}

// Returns the array type of a parameter. unnest flattens arrays of arrays, so a text[] is sent as
// an array literal. For json, the type is text, because the driver would parse json.
function arrayTypeOf(type: ColumnType): string {
  if (type === 'utf8' || type === 'hex') return 'bytea[]';
  return type === 'text[]' || type === 'json' ? 'text[]' : `${type}[]`;
}
