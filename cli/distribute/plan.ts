import type { DatabaseNode } from '../../shared/postgres/database-nodes.ts';
import type { StoredTable } from '../sql/distribution.ts';
import { DISTRIBUTED, FIRST_DISTRIBUTED, NOT_DISTRIBUTED } from './tables.ts';

/** One change of one table, in a transaction of its own. */
export interface Step {
  readonly table: string;
  readonly action: 'replicate' | 'distribute' | 'register' | 'clear';
}

/**
 * The tables in the order of their steps. The reference table is first, because foreign keys of
 * distributed tables lead to it.
 */
export const TABLES: readonly string[] = [
  ...tablesAt('reference'),
  ...DISTRIBUTED,
  ...tablesAt('registered'),
  ...tablesAt('local'),
];

/** Returns the steps that are left. Call it for tables without {@link tableProblems}. */
export function planSteps(tables: readonly StoredTable[]): Step[] {
  return tables.flatMap((stored): Step[] => {
    const { table, leftBytes } = stored;
    const wanted = wantedPlacement(table);
    if (wanted === 'reference' && isOnCoordinator(stored)) return [{ table, action: 'replicate' }];
    if (wanted === 'distributed' && isOnCoordinator(stored)) return [{ table, action: 'distribute' }];
    if (wanted === 'registered' && stored.placement === 'local') return [{ table, action: 'register' }];
    return leftBytes > 0n ? [{ table, action: 'clear' }] : [];
  });
}

/** Citus registers tables by itself too: those with a foreign key to a reference table. */
function isOnCoordinator({ placement }: StoredTable): boolean {
  return placement === 'local' || placement === 'registered';
}

function wantedPlacement(table: string) {
  return NOT_DISTRIBUTED[table]?.placement ?? 'distributed';
}

function tablesAt(placement: string): string[] {
  return Object.keys(NOT_DISTRIBUTED).filter((table) => NOT_DISTRIBUTED[table]!.placement === placement);
}

/**
 * Returns what is wrong with the nodes, each with what to do; empty if tables can be distributed.
 */
export function nodeProblems(nodes: readonly DatabaseNode[]): string[] {
  const problems: string[] = [];
  if (!nodes.some(({ role }) => role === 'coordinator')) {
    problems.push(
      "the list of nodes lacks the coordinator: run `select citus_set_coordinator_host('HOST', PORT)` with the address at which the workers reach it",
    );
  }
  if (!nodes.some(({ role, holdsShards }) => role === 'worker' && holdsShards)) {
    problems.push(
      "the list of nodes has no worker that holds shards: run `select citus_add_node('HOST', PORT)` for each worker",
    );
  }
  for (const { address, active, role } of nodes) {
    if (active || role === 'standby') continue;
    problems.push(`the node ${address} is not active: ${activate(address)}`);
  }
  return problems;
}

/**
 * Returns what is to be done until the tables are stored as Sluice needs them; undefined if they
 * are.
 */
export function distributeHint(
  nodes: readonly DatabaseNode[],
  tables: readonly StoredTable[],
): string | undefined {
  const wrong = tableProblems(tables);
  if (wrong.length === 0 && planSteps(tables).length === 0) return undefined;
  const problems = [...nodeProblems(nodes), ...wrong];
  if (problems.length === 0) return 'Next: ./sluice distribute, because the database has Citus';
  return `The database has Citus, but its tables cannot be distributed yet: ${problems.join('; ')}\nThen: ./sluice distribute`;
}

/** Returns what to do about a node that is not active. */
export function activate(address: string): string {
  const colon = address.lastIndexOf(':');
  return `run \`select citus_activate_node('${address.slice(0, colon)}', ${address.slice(colon + 1)})\``;
}

/** Returns which tables are stored otherwise than Sluice needs, each with what to do. */
export function tableProblems(tables: readonly StoredTable[]): string[] {
  const first = tables.find(({ table }) => table === FIRST_DISTRIBUTED);
  return tables.flatMap((stored) => {
    const problem = tableProblem(stored, first);
    return problem === undefined ? [] : [problem];
  });
}

function tableProblem(stored: StoredTable, first: StoredTable | undefined): string | undefined {
  const { table, placement, column, colocationId } = stored;
  const wanted = wantedPlacement(table);
  if (isOnCoordinator(stored) || (placement === wanted && wanted !== 'distributed')) return undefined;
  if (placement !== wanted || column !== 'tenant_id') {
    return `${table} is ${describe(stored)}, but must be ${WANTED[wanted]}: ${undistribute(table)}`;
  }
  if (first?.placement !== 'distributed') {
    return `${table} is distributed, but ${FIRST_DISTRIBUTED} is not, with which its shards must be colocated: ${undistribute(table)}`;
  }
  if (first.column === 'tenant_id' && colocationId !== first.colocationId) {
    return `${table} is not colocated with ${FIRST_DISTRIBUTED}: run \`select alter_distributed_table('${table}', colocate_with => '${FIRST_DISTRIBUTED}')\``;
  }
  return undefined;
}

const WANTED = {
  distributed: 'distributed by tenant_id',
  reference: 'a reference table',
  registered: 'on the coordinator only',
  local: 'on the coordinator only',
};

function describe({ placement, column }: StoredTable): string {
  if (placement === 'reference') return 'a reference table';
  return placement === 'distributed' ? `distributed by ${column}` : 'distributed without a column';
}

const undistribute = (table: string): string =>
  `run \`select undistribute_table('${table}', cascade_via_foreign_keys => true)\``;
