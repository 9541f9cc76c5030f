import type { QueryResultRow } from 'pg';
import type { Queryable } from '../../shared/postgres/pool.ts';

/** Rows of one page: a few milliseconds of work for who reads them, and little memory. */
const PAGE_ROWS = 500;

/**
 * The rows of a query, however many, in pages. In a transaction, and one query at a time: all pages are of one moment, and
 * whoever works on them waits for the next one, in which time the process does other things.
 */
export async function* readInPages<Row extends QueryResultRow>(
  client: Queryable,
  text: string,
  values: unknown[],
): AsyncGenerator<Row[]> {
  await client.query(`declare pages no scroll cursor for ${text}`, values);
  for (;;) {
    const { rows } = await client.query<Row>(`fetch ${PAGE_ROWS} from pages`);
    if (rows.length > 0) yield rows;
    if (rows.length < PAGE_ROWS) break;
  }
  // Otherwise it ends with the transaction, which failed.
  await client.query('close pages');
}
