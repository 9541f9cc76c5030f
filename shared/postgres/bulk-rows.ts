import { LARGE_FROM, runAtOnce, runInSlices } from '../map-in-slices.ts';
import { arrayParameter, type ColumnType, elementsOf } from './array-parameter.ts';
import { columnParameter, type EncodedRow } from './encoded-rows.ts';
import type { Queryable } from './pool.ts';

/** The most parameters that the protocol permits for a statement. */
const PARAMETERS_MAX = 65_535;

/** The types of parameters that are single values, where they differ from those of their columns. */
const VALUE_CASTS: Partial<Record<ColumnType, string>> = {
  utf8: 'bytea',
  hex: 'bytea',
  'text[]': 'text::text[]',
};

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
  if (db.isCitus) return await insertValues(db, table, columns, rows, suffix);
  const unnested = await unnestInSlices(columns, rows);
  return (await db.query<Returned>(insertText(table, columns, unnested, suffix), unnested.values)).rows;
}

/** How {@link insertMissingRows} finds the rows that exist. */
export interface RowKey<Member extends string> {
  /** The columns of the unique key. */
  readonly unique: string;
  /** The members of a row that identify it among the rows, with the names of their columns. */
  readonly members: Readonly<Record<Member, string>>;
}

/**
 * Inserts the rows (distinct, sorted) whose keys do not exist yet, and resolves with the keys of the
 * others, which exist. Waits for concurrent inserts of the same keys.
 */
export async function insertMissingRows<Row, Member extends keyof Row & string>(
  db: Queryable,
  table: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  key: RowKey<Member>,
): Promise<Pick<Row, Member>[]> {
  if (rows.length === 0) return [];
  const members = Object.entries<string>(key.members) as [Member, string][];
  const keyNames = members.map(([, name]) => name).join(', ');
  const keys = members.map(([member, name]) => `${name} as "${member}"`).join(', ');
  const doNothing = `on conflict (${key.unique}) do nothing returning`;
  if (db.isCitus) {
    const inserted = await insertValues<Row, Pick<Row, Member>>(
      db,
      table,
      columns,
      rows,
      `${doNothing} ${keys}`,
    );
    const ids = new Set(inserted.map((row) => idOf(row, members)));
    return rows.filter((row) => !ids.has(idOf(row, members)));
  }
  const names = namesOf(columns);
  const { select, values } = await unnestInSlices(columns, rows);
  // Returns the few keys that exist, because the driver spends more on a returned row than the
  // server on the rest of the row.
  const existing = await db.query<Pick<Row, Member>>(
    `with sent as (${select}),
          inserted as (insert into ${table} (${names}) select ${names} from sent ${doNothing} ${keyNames})
     select ${keys} from sent except select ${keyNames} from inserted`,
    values,
  );
  return existing.rows;
}

function idOf<Member extends string>(
  row: Readonly<Record<Member, unknown>>,
  members: readonly (readonly [Member, string])[],
): string {
  return JSON.stringify(members.map(([member]) => row[member]));
}

/**
 * Returns the statement of {@link insertRows} for a table that Citus does not shard. Rows must be
 * sorted by their key, so that concurrent statements cannot deadlock.
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
  return `insert into ${table} (${namesOf(columns)}) ${select} ${suffix}`;
}

function namesOf<Row>(columns: readonly Column<Row>[]): string {
  return columns.map(({ name }) => `"${name}"`).join(', ');
}

/**
 * Inserts the rows as lists of values, which Citus sends to the shards of their tenants. Rows of
 * unnest would be copied to the shards: then their errors have no SQLSTATE of their own, and
 * ON CONFLICT waits for all transactions that write other tenants.
 */
async function insertValues<Row, Returned>(
  db: Queryable,
  table: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  suffix: string,
): Promise<Returned[]> {
  const returned: Returned[] = [];
  const rowsMax = Math.floor(PARAMETERS_MAX / columns.length);
  for (let at = 0; at < rows.length; at += rowsMax) {
    const part = rows.slice(at, at + rowsMax);
    const { values } = await unnestInSlices(columns, part);
    const parameters: unknown[] = [];
    const cells = columns.map((column, i) => {
      const cast = VALUE_CASTS[column.type] ?? column.type;
      const cellOf = (value: unknown) => `$${parameters.push(value)}::${cast}`;
      if ('same' in column) {
        const cell = cellOf(values[i]);
        return () => cell;
      }
      const elements = elementsOf(values[i] as Buffer | string);
      return (row: number) => cellOf(elements[row]);
    });
    const lists = part.map((_, row) => `(${cells.map((cell) => cell(row)).join(', ')})`);
    const statement = {
      text: `insert into ${table} (${namesOf(columns)}) values ${lists.join(', ')} ${suffix}`,
      values: parameters,
      // Each number of rows has a text of its own.
      preparable: false,
    };
    for (const row of (await db.query<Returned>(statement)).rows) returned.push(row);
  }
  return returned;
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
