import type { ExportColumn, ExportedKind } from './export-kinds.ts';
import {
  comparePlaces,
  type ExportPlace,
  type ExportPositions,
  PARTITION_START,
} from './export-positions.ts';
import { PAGE_BYTES_MAX, type PageRow } from './page-bytes.ts';
import { inTransaction, type Pool, type Queryable } from './pool.ts';

export interface ExportQuery {
  readonly tenantId: string;
  /** Where the page begins. */
  readonly from: ExportPositions;
  /** Where the export ends: {@link readExportEnd}, or an earlier result of it. */
  readonly end: ExportPositions;
  /** Maximum number of rows. */
  readonly limit: number;
  /** Only records accepted from `fromMs` (inclusive) to `toMs` (exclusive), in milliseconds. */
  readonly accepted?: { readonly fromMs?: number | undefined; readonly toMs?: number | undefined };
}

export interface ExportPage {
  /** The rows, each as a JSON object on one line. */
  readonly rows: readonly string[];
  /** Where the next page begins. */
  readonly next: ExportPositions;
  /** Whether the page reached the end. */
  readonly isLast: boolean;
}

/** Rows of one statement, at most. */
const STATEMENT_ROWS_MAX = 1000;
/** Offsets of a partition that one statement searches: it reads the rows of all tenants, so it must be short. */
const OFFSETS_MAX = 20_000n;
/** Searches after which a page ends, even without rows. */
const SEARCHES_MAX = 10;

/**
 * Reads the next rows of a tenant in the order in which workers read them: partition by partition, and
 * in each by position. A page ends after `limit` rows, {@link PAGE_BYTES_MAX} bytes, or a bounded
 * search, so it can be without rows before the last one.
 *
 * Nothing is missed: rows below `end` are committed, and a record that is stored later was read at or
 * above it.
 */
export async function readExportPage(
  pool: Pool,
  kind: ExportedKind,
  query: ExportQuery,
): Promise<ExportPage> {
  return await inTransaction(
    pool,
    async (db) => {
      // With less, which a database or a role may have, doubles would be rounded.
      await db.query('set local extra_float_digits = 1');
      return await new PageReader(db, kind, query).read();
    },
    { preferIndexes: true },
  );
}

interface FoundRow extends PageRow, ExportPlace {
  readonly row: string;
}

class PageReader {
  readonly #db: Queryable;
  readonly #kind: ExportedKind;
  readonly #query: ExportQuery;
  readonly #next: Map<number, ExportPlace>;
  readonly #rows: string[] = [];
  #bytes = 0;
  #searches = 0;

  constructor(db: Queryable, kind: ExportedKind, query: ExportQuery) {
    this.#db = db;
    this.#kind = kind;
    this.#query = query;
    this.#next = new Map(query.from);
  }

  async read(): Promise<ExportPage> {
    for (const [partition, end] of this.#query.end) {
      let at = this.#next.get(partition) ?? PARTITION_START;
      while (comparePlaces(at, end) < 0) {
        if (this.#isFull()) return { rows: this.#rows, next: this.#next, isLast: false };
        at = await this.#readSome(partition, at, end);
        this.#next.set(partition, at);
      }
    }
    return { rows: this.#rows, next: this.#next, isLast: true };
  }

  #isFull(): boolean {
    return (
      this.#rows.length >= this.#query.limit ||
      this.#bytes >= PAGE_BYTES_MAX ||
      this.#searches >= SEARCHES_MAX
    );
  }

  /** Reads rows of one partition, and resolves with the place after what it searched. */
  async #readSome(partition: number, at: ExportPlace, end: ExportPlace): Promise<ExportPlace> {
    const upTo = earlier({ generation: at.generation, offset: at.offset + OFFSETS_MAX }, end);
    const limit = Math.min(this.#query.limit - this.#rows.length, STATEMENT_ROWS_MAX);
    const found = await this.#findRows(partition, at, upTo, limit);
    for (const { row } of found) {
      this.#rows.push(row);
      this.#bytes += Buffer.byteLength(row);
    }
    const last = found.at(-1);
    // The count includes rows that the limit on bytes has cut off.
    if (last && (last.rows === limit || last.rows > found.length)) {
      return { generation: last.generation, offset: last.offset + 1n };
    }
    if (comparePlaces(upTo, end) === 0) return end;
    this.#searches += 1;
    return (await this.#findNext(partition, upTo, end)) ?? end;
  }

  async #findRows(partition: number, at: ExportPlace, upTo: ExportPlace, limit: number): Promise<FoundRow[]> {
    const { table, selected, columns, joins = '' } = this.#kind;
    const { accepted } = this.#query;
    const values: unknown[] = [
      this.#query.tenantId,
      partition,
      at.generation,
      at.offset,
      upTo.generation,
      upTo.offset,
      limit,
    ];
    const { rows } = await this.#db.query<FoundRow>(
      `select page.row, page.generation, page."offset", page.rows
         from (select line.row, line.generation, line."offset", count(*) over ()::int as rows,
                      sum(octet_length(line.row)) over (order by line.generation, line."offset"
                                                        rows between unbounded preceding and 1 preceding) as bytes_before
                 from (select translate((select row_to_json(o)::text from (select ${columns.map(jsonValueOf).join(', ')}) o), E'\\n\\r', '  ') as row,
                              r.read_generation as generation, r.read_offset as "offset"
                         from (select ${selected.join(', ')}, ${GENERATION} as read_generation, ${OFFSET} as read_offset
                                 from ${table}
                                where tenant_id = $1 and ${PARTITION} = $2
                                  and (${GENERATION}, ${OFFSET}) >= ($3::int, $4::bigint)
                                  and (${GENERATION}, ${OFFSET}) < ($5::int, $6::bigint)
                                  ${acceptedCondition(accepted, values)}
                                order by ${GENERATION}, ${OFFSET} limit $7) r ${joins}
                        -- Keeps the JSON from being made again for its length.
                        offset 0) line) page
        where coalesce(page.bytes_before, 0) < ${PAGE_BYTES_MAX}
        order by page.generation, page."offset"`,
      values,
    );
    return rows;
  }

  /**
   * Resolves with the place of the next row of any tenant, if there is one: offsets without rows, such as
   * those of weeks that were dropped, are skipped at once.
   */
  async #findNext(partition: number, at: ExportPlace, end: ExportPlace): Promise<ExportPlace | undefined> {
    const values: unknown[] = [partition, at.generation, at.offset, end.generation, end.offset];
    const { rows } = await this.#db.query<ExportPlace>(
      `select ${GENERATION} as generation, ${OFFSET} as "offset" from ${this.#kind.table}
        where ${PARTITION} = $1 and (${GENERATION}, ${OFFSET}) >= ($2::int, $3::bigint)
          and (${GENERATION}, ${OFFSET}) < ($4::int, $5::bigint) ${acceptedCondition(this.#query.accepted, values)}
        order by ${GENERATION}, ${OFFSET} limit 1`,
      values,
    );
    return rows[0];
  }
}

// As in the indexes.
const PARTITION = 'coalesce(read_partition, partition)';
const GENERATION = 'coalesce(read_generation, generation)';
const OFFSET = 'coalesce(read_offset, "offset")';

function earlier(a: ExportPlace, b: ExportPlace): ExportPlace {
  return comparePlaces(a, b) < 0 ? a : b;
}

/** Returns the condition on the time of acceptance, and adds its values. */
function acceptedCondition(accepted: ExportQuery['accepted'], values: unknown[]): string {
  const condition = (operator: string, ms: number | undefined) =>
    ms === undefined ? '' : ` and accepted_at ${operator} $${values.push(new Date(ms))}`;
  return condition('>=', accepted?.fromMs) + condition('<', accepted?.toMs);
}

/** Returns the value of a column in JSON. */
function jsonValueOf({ name, type, sql = `r.${name}` }: ExportColumn): string {
  if (type === 'bigint') return `(${sql})::text as ${name}`;
  if (type === 'timestamp') return `(to_json((${sql}) at time zone 'UTC') #>> '{}') || 'Z' as ${name}`;
  return `${sql} as ${name}`;
}
