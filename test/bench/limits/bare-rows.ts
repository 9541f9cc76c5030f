import { type Client, openClient } from '../../../shared/postgres/client.ts';
import type { RunLength } from '../case.ts';
import type { LoadedProduct } from '../loaded-product.ts';

/** Rows of a statement, the number at which statements of this kind are fastest. */
const BATCH_ROWS = 1000;
/** Rows that are read from the product's table and then written again and again. */
const SAMPLE_ROWS = 20_000;

export interface BareTable {
  /** The product's table, whose columns and rows are copied. */
  readonly table: string;
  /** Columns of the primary key, for upserts. Default: rows are inserted, without a key. */
  readonly key?: readonly string[];
}

interface Sample {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly (readonly (string | null)[])[];
}

/**
 * Writes copies of the product's stored rows with unnest over one connection, one batch per
 * transaction, and resolves with the rows per second. Arrays are sent as text. The table has the
 * product's columns and, for upserts, its primary key, and nothing else of the product.
 */
export async function measureBareRows(
  { connectionString }: LoadedProduct,
  bare: BareTable,
  { warmupMs, measuredMs }: RunLength,
): Promise<number> {
  const client = await openClient({ connectionString, applicationName: 'sluice-bench' });
  try {
    const sample = await readSample(client, bare.table);
    await client.query('drop table if exists bare_rows');
    await client.query(`create table bare_rows (like ${bare.table})`);
    if (bare.key) await client.query(`alter table bare_rows add primary key (${bare.key.join(', ')})`);
    const statement = statementOf(sample, bare);
    const write = async (ms: number) => {
      const startedMs = performance.now();
      let rows = 0;
      for (; performance.now() - startedMs < ms; rows += BATCH_ROWS) {
        await client.query(statement, batchOf(sample, rows));
      }
      return (rows * 1000) / (performance.now() - startedMs);
    };
    await write(warmupMs);
    const perSecond = await write(measuredMs);
    await client.query('drop table bare_rows');
    return perSecond;
  } finally {
    await client.end();
  }
}

async function readSample(client: Client, table: string): Promise<Sample> {
  const { rows: columns } = await client.query<{ name: string; type: string }>(
    `select attname as name, format_type(atttypid, null) as type
       from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
    [table],
  );
  const texts = columns.map(({ name }) => `"${name}"::text`).join(', ');
  const { rows } = await client.query<{ row: (string | null)[] }>(
    `select array[${texts}] as row from ${table} limit ${SAMPLE_ROWS}`,
  );
  if (rows.length < BATCH_ROWS) throw new Error(`${table} has only ${rows.length} rows`);
  return { columns, rows: rows.map(({ row }) => row) };
}

/** Arrays of arrays and json are sent as text and cast, because unnest would flatten the former. */
const CAST_TYPES: ReadonlySet<string> = new Set(['text[]', 'json']);

function statementOf({ columns }: Sample, { key }: BareTable): string {
  const names = columns.map(({ name }) => `"${name}"`);
  const parameters = columns.map(({ type }, i) => `$${i + 1}::${CAST_TYPES.has(type) ? 'text' : type}[]`);
  const selected = columns.map(({ type }, i) => (CAST_TYPES.has(type) ? `${names[i]}::${type}` : names[i]));
  const insert =
    `insert into bare_rows (${names.join(', ')}) select ${selected.join(', ')} ` +
    `from unnest(${parameters.join(', ')}) as sent (${names.join(', ')})`;
  if (!key) return insert;
  const assignments = names.map((name) => `${name} = excluded.${name}`).join(', ');
  return `${insert} on conflict (${key.join(', ')}) do update set ${assignments}`;
}

/** Returns the arrays of a batch as text, one per column, encoded for this batch. */
function batchOf({ columns, rows }: Sample, first: number): string[] {
  const batch = Array.from({ length: BATCH_ROWS }, (_, i) => rows[(first + i) % rows.length]!);
  return columns.map((_, column) => `{${batch.map((row) => elementOf(row[column]!)).join(',')}}`);
}

function elementOf(text: string | null): string {
  return text === null ? 'NULL' : `"${text.replace(/[\\"]/g, '\\$&')}"`;
}
