/**
 * Bytes of rows after which a page ends, since the rows of an entity can have 100 KB each. A page has
 * at least one row.
 */
export const PAGE_BYTES_MAX = 4 * 1024 * 1024;

/** A column of a page's rows with the number of rows that the page would have without the limit. */
export interface PageRow {
  readonly rows: number;
}

/**
 * Returns SQL for the first rows of a query, up to {@link PAGE_BYTES_MAX}, each with the columns of
 * {@link PageRow}. `columns` and `order` name columns of the query.
 */
export function withinPageBytes(query: string, columns: readonly string[], order: readonly string[]): string {
  const of = (alias: string, names: readonly string[]) =>
    names.map((name) => `${alias}."${name}"`).join(', ');
  return `select ${of('page', columns)}, page.rows
    from (select ${of('found', columns)}, count(*) over ()::int as rows,
                 sum(octet_length(found::text)) over (order by ${of('found', order)}
                                                      rows between unbounded preceding and 1 preceding) as bytes_before
            from (${query}) as found) as page
   where coalesce(page.bytes_before, 0) < ${PAGE_BYTES_MAX}
   order by ${of('page', order)}`;
}
