import { createHash } from 'node:crypto';
import type { Queryable, QueryResult, Statement } from './queryable.ts';

/** Statements that a connection prepares at most. The others are planned each time. */
const PREPARED_MAX = 200;
/**
 * Milliseconds for which plans are kept. The server itself keeps them until it has analyzed a table
 * again, which is too late for a queue that was empty when a plan was made and has grown since.
 */
const PLANS_KEPT_MS = 5000;

interface Prepared {
  /** The names of the prepared statements, by their texts. */
  readonly names: Map<string, string>;
  plansSinceMs: number;
}

const preparedOf = new WeakMap<Queryable, Prepared>();

/**
 * A pipelined connection in a transaction. Its `unanswered` sends statements without waiting for
 * their answers: one that fails makes the next statement with an answer reject with its error,
 * COMMIT at the latest. With `prepare`, it prepares statements with parameters, because planning a
 * small statement takes longer than to run it.
 */
export class PipelinedTransaction implements Queryable {
  readonly pipeline = true;
  readonly isCitus: boolean;
  readonly unanswered: Queryable;
  readonly #connection: Queryable;
  readonly #prepare: boolean;
  /** Resolves when the statements without answers have succeeded. */
  #succeeded: Promise<unknown> = Promise.resolve();

  constructor(connection: Queryable, { prepare }: { readonly prepare: boolean }) {
    this.#connection = connection;
    this.#prepare = prepare;
    this.isCitus = connection.isCitus ?? false;
    this.unanswered = {
      pipeline: true,
      isCitus: this.isCitus,
      query: async (statement, values) => {
        this.#sendUnanswered(this.#toStatement(statement, values));
        return { rows: [], rowCount: null };
      },
    };
  }

  async query<Row>(given: string | Statement, values?: unknown[]): Promise<QueryResult<Row>> {
    const statement = this.#toStatement(given, values);
    const before = this.#succeeded;
    const answer = this.#connection.query<Row>(statement);
    // If an earlier statement fails, nobody waits for this answer.
    answer.catch(() => undefined);
    await before;
    return await answer;
  }

  #sendUnanswered(statement: Statement): void {
    const before = this.#succeeded;
    const answer = this.#connection.query(statement);
    answer.catch(() => undefined);
    this.#succeeded = before.then(() => answer);
    this.#succeeded.catch(() => undefined);
  }

  #toStatement(given: string | Statement, values: unknown[] | undefined): Statement {
    const statement = typeof given === 'string' ? { text: given, ...(values && { values }) } : given;
    if (!this.#prepare || !statement.values?.length || statement.preparable === false) return statement;
    const name = this.#nameOf(statement.text);
    return name === undefined ? statement : { ...statement, name };
  }

  #nameOf(text: string): string | undefined {
    const prepared = this.#preparedStatements();
    const known = prepared.names.get(text);
    if (known !== undefined || prepared.names.size === PREPARED_MAX) return known;
    const name = createHash('sha256').update(text).digest('base64url');
    prepared.names.set(text, name);
    return name;
  }

  #preparedStatements(): Prepared {
    const nowMs = performance.now();
    const prepared = preparedOf.get(this.#connection);
    if (!prepared) {
      const none = { names: new Map<string, string>(), plansSinceMs: nowMs };
      preparedOf.set(this.#connection, none);
      return none;
    }
    if (nowMs - prepared.plansSinceMs > PLANS_KEPT_MS) {
      prepared.plansSinceMs = nowMs;
      this.#sendUnanswered({ text: 'discard plans' });
    }
    return prepared;
  }
}
