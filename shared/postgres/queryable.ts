export interface QueryResult<Row> {
  readonly rows: Row[];
  /** Rows that the statement returned or changed; null for statements without rows. */
  readonly rowCount: number | null;
}

export interface Statement {
  readonly text: string;
  readonly values?: unknown[];
  /**
   * Prepares the statement under this name, once per connection. Different statements need different
   * names. Not for connections through a pooler.
   */
  readonly name?: string;
  /** Whether a pipelined transaction may prepare the statement. Default true. */
  readonly preparable?: boolean;
  /**
   * Milliseconds without a response after which the statement rejects. Default: the pool's timeout.
   */
  readonly query_timeout?: number | undefined;
}

/** Runs statements: a pool, or one connection inside a transaction. */
export interface Queryable {
  /** Whether the database is a Citus cluster, which shards tables by tenant; see `findCitus`. */
  readonly isCitus?: boolean;
  /**
   * Whether statements are sent before the previous ones are answered. Set on connections of a pool
   * with this option only.
   */
  readonly pipeline?: boolean;
  /**
   * The same connection, but its statements resolve before they are answered, with no rows; see
   * `withoutAnswer` in pipelining.ts.
   */
  readonly unanswered?: Queryable;
  // biome-ignore lint/suspicious/noExplicitAny: a caller that names no row type knows the columns.
  query<Row = any>(statement: string | Statement, values?: unknown[]): Promise<QueryResult<Row>>;
}
