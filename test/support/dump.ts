import type { Pool } from '../../shared/postgres/pool.ts';
import type { Written } from './find-planted.ts';

/** The tables of the embedded log. Sluice changes no record in it. */
const LOG_TABLES = ['log_records'];

/**
 * Resolves with every row of every table, partitions included, as JSON of all columns; bytes are in
 * hex. Leaves out the rows of other tenants.
 */
export async function dumpDatabase(pool: Pool, tenantId: string): Promise<Written[]> {
  const tables = await pool.query<{ name: string }>(
    `select relname as name from pg_class
      where relkind = 'r' and relnamespace = current_schema()::regnamespace and relname <> all($1::text[])`,
    [LOG_TABLES],
  );
  const dump: Written[] = [];
  for (const { name } of tables.rows) {
    const { rows } = await pool.query<{ row: string }>(
      `select to_jsonb(t)::text as row from ${name} t
        where coalesce(to_jsonb(t) ->> 'tenant_id', $1) = $1`,
      [tenantId],
    );
    dump.push(...rows.map(({ row }) => ({ where: name, bytes: Buffer.from(row) })));
  }
  return dump;
}
