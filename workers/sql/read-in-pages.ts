import type { Queryable } from '../../shared/postgres/pool.ts';

/** Rows per page: a few milliseconds of work for the caller, and little memory. */
const PAGE_ROWS = 500;

/**
 * Yields the rows of a query in pages, through a cursor. Must be called in a transaction, one query
 * at a time. All pages come from the same snapshot. The process can do other work between two
 * pages.
 */
export async function* readInPages<Row>(
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
  // After an error, the end of the transaction closes the cursor.
  await client.query('close pages');
}
