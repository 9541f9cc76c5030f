import { AppError, errorMessage, onOneLine } from '../../shared/errors.ts';
import { type DatabaseNode, listDatabaseNodes } from '../../shared/postgres/database-nodes.ts';
import { checkSchema, schemaVersion } from '../../shared/postgres/migrate.ts';
import { whileLocked } from '../../shared/postgres/named-lock.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { SQLSTATE, sqlStateOf } from '../../shared/postgres/sqlstate.ts';
import {
  connectedParts,
  deleteLeft,
  distributeFirst,
  distributeWith,
  makeReference,
  newerMigrations,
  readCoordinator,
  readDistribution,
  registerTable,
  type StoredTable,
} from '../sql/distribution.ts';
import { distributeHint, nodeProblems, planSteps, type Step, TABLES, tableProblems } from './plan.ts';
import { FIRST_DISTRIBUTED } from './tables.ts';

export interface DistributeOptions {
  readonly pool: Pool;
  /** Number of shards; undefined: as it is, or {@link SHARDS}. */
  readonly shards: number | undefined;
  /** Called after each step. */
  readonly onStep: (step: Step, ms: number) => void;
}

export interface DistributeReport {
  readonly steps: readonly Step[];
  readonly tables: readonly StoredTable[];
  readonly nodes: readonly DatabaseNode[];
}

/** The default of Citus too. */
export const SHARDS = 32;
/** Milliseconds to wait for a table that another session uses. Writers wait for the table meanwhile. */
const TABLE_TIMEOUT_MS = 10_000;
const LOCK = 'distribute';

/**
 * Stores the tables of a database with Citus as Sluice needs them. Each table is a step of its own,
 * in a transaction, so that a run can be repeated after an interruption.
 *
 * Rejects before the first step with AppError `SCHEMA_OUTDATED`, `SCHEMA_TOO_NEW`, `NOT_DISTRIBUTABLE`
 * or `DISTRIBUTE_RUNS` (retryable); at a step with `TABLE_LOCKED` (retryable) or `STEP_FAILED`.
 */
export async function distribute({ pool, shards, onStep }: DistributeOptions): Promise<DistributeReport> {
  const run = await whileLocked(pool, LOCK, async () => {
    await requireCoordinator(pool);
    await requireSameSchema(pool);
    const nodes = await requireDistributable(pool, shards);
    const steps: Step[] = [];
    const takeSteps = async () => {
      for (const step of planSteps(await readDistribution(pool, TABLES))) {
        const startMs = performance.now();
        await takeStep(pool, step, shards ?? SHARDS);
        steps.push(step);
        onStep(step, performance.now() - startMs);
      }
    };
    await takeSteps();
    // What was copied to shards is then deleted on the coordinator.
    await takeSteps();
    return { steps, nodes, tables: await readDistribution(pool, TABLES) };
  });
  if (run) return run.result;
  throw new AppError(
    'DISTRIBUTE_RUNS',
    'another `sluice distribute` is running: repeat it when it has ended',
    {
      retryable: true,
    },
  );
}

/**
 * Resolves unless the database is a worker of Citus, which must not be changed by itself. Rejects with
 * AppError `NOT_DISTRIBUTABLE`.
 */
export async function requireCoordinator(db: Queryable): Promise<void> {
  if (!db.isCitus) return;
  const coordinator = await readCoordinator(db);
  if (coordinator === undefined) return;
  const named = coordinator === '' ? ', which its list of nodes lacks' : ` ${coordinator}`;
  throw notDistributable([`DATABASE_URL leads to a worker node: set it to the coordinator${named}`]);
}

/**
 * Resolves with what is to be done in a database with Citus of which a table is not stored as Sluice
 * needs it, such as one of a new migration.
 */
export async function nextOnCitus(db: Queryable): Promise<string | undefined> {
  if (!db.isCitus) return undefined;
  return distributeHint(await listDatabaseNodes(db), await readDistribution(db, TABLES));
}

/** The list of tables is complete only for a schema of this release. */
async function requireSameSchema(db: Queryable): Promise<void> {
  await checkSchema(db);
  const newer = await newerMigrations(db, schemaVersion());
  if (newer.length === 0) return;
  throw new AppError(
    'SCHEMA_TOO_NEW',
    `the database has migrations of a newer release (${newer.join(', ')}): run \`./sluice distribute\` of that release`,
  );
}

/** Resolves with the nodes. Rejects with AppError `NOT_DISTRIBUTABLE`, which lists all problems. */
async function requireDistributable(db: Queryable, shards: number | undefined): Promise<DatabaseNode[]> {
  const nodes = await listDatabaseNodes(db);
  const tables = await readDistribution(db, TABLES);
  const problems = [
    ...nodeProblems(nodes),
    ...tableProblems(tables),
    ...shardProblems(tables, shards),
    ...partProblems(tables, await connectedParts(db)),
  ];
  if (problems.length > 0) throw notDistributable(problems);
  return nodes;
}

function notDistributable(problems: readonly string[]): AppError {
  return new AppError('NOT_DISTRIBUTABLE', `nothing was changed: ${problems.join('; ')}`);
}

function shardProblems(tables: readonly StoredTable[], shards: number | undefined): string[] {
  const first = tables.find(({ table }) => table === FIRST_DISTRIBUTED)!;
  if (shards === undefined || first.placement !== 'distributed' || first.shards === shards) return [];
  return [
    `the tables have ${first.shards} shards already: leave --shards out, or stop Sluice and run \`select alter_distributed_table('${FIRST_DISTRIBUTED}', shard_count := ${shards}, cascade_to_colocated := true)\``,
  ];
}

/**
 * Parts that run when the first table is distributed may have started before the database had Citus,
 * and would send statements that it refuses. Later steps are those of new tables, or of a run that
 * was interrupted.
 */
function partProblems(tables: readonly StoredTable[], parts: readonly string[]): string[] {
  const first = tables.find(({ table }) => table === FIRST_DISTRIBUTED)!;
  if (first.placement === 'distributed' || parts.length === 0) return [];
  return [
    `parts of Sluice are connected to the database (${parts.join(', ')}): stop them, because they decide at their start how they write`,
  ];
}

async function takeStep(pool: Pool, { table, action }: Step, shards: number): Promise<void> {
  const run = async (db: Queryable) => {
    // Copying a large table takes long.
    await db.query('set local statement_timeout = 0');
    if (action === 'replicate') return await makeReference(db, table);
    if (action === 'register') return await registerTable(db, table);
    if (action === 'clear') return await deleteLeft(db, table);
    if (table === FIRST_DISTRIBUTED) return await distributeFirst(db, table, shards);
    return await distributeWith(db, table, FIRST_DISTRIBUTED);
  };
  try {
    await inTransaction(pool, run, { lockTimeoutMs: TABLE_TIMEOUT_MS });
  } catch (error) {
    throw stepError(error, table);
  }
}

function stepError(error: unknown, table: string): AppError {
  const code = sqlStateOf(error);
  if (code === SQLSTATE.LOCK_NOT_AVAILABLE) {
    return new AppError(
      'TABLE_LOCKED',
      `another session uses the table ${table}: stop workers, admin listeners and gateways, wait for the end of an interrupted \`./sluice distribute\`, and repeat \`./sluice distribute\``,
      { retryable: true, cause: error },
    );
  }
  // Without an SQLSTATE, the connection was lost, perhaps after the commit.
  const isRefused = code !== undefined || sqlStateOf((error as Error).cause) !== undefined;
  const effect = isRefused ? 'failed and changed nothing' : 'failed';
  return new AppError(
    'STEP_FAILED',
    `the step of the table ${table} ${effect}: ${onOneLine(errorMessage(error))}${code === undefined ? '' : ` (${code})`}; correct that, and repeat \`./sluice distribute\`, which continues here`,
    { cause: error },
  );
}
