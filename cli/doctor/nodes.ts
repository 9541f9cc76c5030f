import {
  type DatabaseNode,
  type ExaminedNode,
  examineDatabaseNodes,
} from '../../shared/postgres/database-nodes.ts';
import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { activate, nodeProblems, planSteps, TABLES, tableProblems } from '../distribute/plan.ts';
import { FIRST_DISTRIBUTED } from '../distribute/tables.ts';
import {
  countRebalances,
  findUnsafeSettings,
  readCoordinator,
  readDistribution,
  type StoredTable,
} from '../sql/distribution.ts';
import { checking, type Finding, ok, problem } from './finding.ts';

/** Checks of a database with Citus. */

const ADVICE = 'connect to the coordinator, as the role that ran `./sluice migrate`';
const UNREACHABLE_ADVICE =
  'start it, or promote its standby and run `select citus_update_node(…)`: statements on its shards fail meanwhile';
const DURABILITY_ADVICE = 'set them to on: a node that crashes loses what it has committed';
const STANDBY_ADVICE =
  'add a standby to each (docs/scale.md): while such a server is down, batches with rows for it wait, and its disk is the only copy';

/**
 * Checks nodes, standbys and, if the schema is up to date, the tables. Resolves with nothing if the
 * database has no Citus.
 */
export async function checkNodes(pool: Pool, isUpToDate: boolean): Promise<readonly Finding[]> {
  return await checking('nodes', ADVICE, async () => {
    if (!pool.isCitus) return [];
    const coordinator = await readCoordinator(pool);
    if (coordinator !== undefined) {
      return [
        problem('nodes', 'this is a worker node', `set DATABASE_URL to the coordinator ${coordinator}`),
      ];
    }
    // One transaction: the first call limits how long both wait for a node that does not answer.
    const [examined, unsafe] = await inTransaction(
      pool,
      async (db) => [await examineDatabaseNodes(db), await findUnsafeSettings(db)] as const,
    );
    const nodes = [...nodeFindings(examined), ...durabilityFindings(unsafe)];
    if (!isUpToDate) return nodes;
    const tables = await readDistribution(pool, TABLES);
    return [...nodes, ...tableFindings(tables, await countRebalances(pool), examined)];
  });
}

export function nodeFindings(nodes: readonly ExaminedNode[]): Finding[] {
  const faults = nodes.flatMap(({ address, state }): Finding[] => {
    if (state === 'unreachable')
      return [problem('nodes', `${address} does not answer the coordinator`, UNREACHABLE_ADVICE)];
    return state === 'inactive' ? [problem('nodes', `${address} is not active`, activate(address))] : [];
  });
  const alone = nodes.filter(({ state }) => state === 'without-standby').map(({ address }) => address);
  const unprotected = { ...ok('standbys', `none is known of ${alone.join(', ')}`), advice: STANDBY_ADVICE };
  return [
    ...(faults.length > 0 ? faults : [ok('nodes', `${countRoles(nodes)} answer`)]),
    ...(alone.length > 0 ? [unprotected] : []),
  ];
}

/** Transactions set synchronous_commit on the coordinator only, and the others cannot be set there. */
export function durabilityFindings(unsafe: readonly string[]): Finding[] {
  if (unsafe.length === 0) return [];
  return [problem('durability', `off: ${unsafe.join(', ')}`, DURABILITY_ADVICE)];
}

function countRoles(nodes: readonly ExaminedNode[]): string {
  const count = (role: DatabaseNode['role']) => nodes.filter((node) => node.role === role).length;
  const workers = count('worker');
  return `the coordinator${count('coordinator') === 0 ? ' (not in the list of nodes)' : ''} and ${workers} worker${workers === 1 ? '' : 's'}`;
}

export function tableFindings(
  tables: readonly StoredTable[],
  rebalances: number,
  nodes: readonly DatabaseNode[],
): Finding[] {
  const { placement, shards } = tables.find(({ table }) => table === FIRST_DISTRIBUTED)!;
  const wrong = tableProblems(tables);
  if (wrong.length > 0) return wrong.map((text) => problem('tables', ...splitAdvice(text)));
  const left = [...new Set(planSteps(tables).map(({ table }) => table))];
  if (placement !== 'distributed') {
    const problems = nodeProblems(nodes);
    const advice =
      problems.length === 0
        ? 'to use the workers, run `./sluice distribute`'
        : `before \`./sluice distribute\`, correct the nodes: ${problems.join('; ')}`;
    return [{ ...ok('tables', 'all are on the coordinator'), advice }];
  }
  if (left.length > 0)
    return [problem('tables', `${left.join(', ')} not stored as needed`, 'run `./sluice distribute`')];
  const moves = rebalances > 0 ? `; shards are being moved (\`select citus_rebalance_status()\`)` : '';
  return [ok('tables', `distributed in ${shards} shards${moves}`)];
}

/** Splits `found: advice`. */
function splitAdvice(text: string): [found: string, advice: string] {
  const colon = text.indexOf(': ');
  return [text.slice(0, colon), text.slice(colon + 2)];
}
