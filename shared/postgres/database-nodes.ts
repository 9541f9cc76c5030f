import type { Queryable } from './pool.ts';

/** A server of a database that is sharded by tenant (Citus). */
export interface DatabaseNode {
  /** Its address in the coordinator's list of nodes, such as `worker1:5432`. */
  readonly address: string;
  /** A standby is one that the list of nodes names as such. */
  readonly role: 'coordinator' | 'worker' | 'standby';
  /** Nodes with the same number hold the same shards: a primary and its standbys. */
  readonly group: number;
  /** Whether Citus uses the node. */
  readonly active: boolean;
  /** Whether shards are stored on the node. */
  readonly holdsShards: boolean;
}

/** Returns the nodes in the list of a database with Citus, each primary before its standbys. */
export async function listDatabaseNodes(db: Queryable): Promise<DatabaseNode[]> {
  const { rows } = await db.query<DatabaseNode>(
    `select nodename || ':' || nodeport as address,
            case when noderole <> 'primary' then 'standby' when groupid = 0 then 'coordinator' else 'worker' end as role,
            groupid as "group", isactive as active, shouldhaveshards as "holdsShards"
       from pg_dist_node
      order by groupid, noderole <> 'primary', nodeid`,
  );
  return rows;
}

/**
 * - `ok`: it answers, and has a standby, or is one.
 * - `without-standby`: it answers, and the coordinator knows no standby of it: none is in the list of
 *   nodes, and none replicates from it.
 * - `unreachable`: it does not answer the coordinator. Not known for standbys, which are `ok`.
 * - `inactive`: Citus does not use it.
 */
export const NODE_STATES = ['ok', 'without-standby', 'unreachable', 'inactive'] as const;
export type NodeState = (typeof NODE_STATES)[number];

export interface ExaminedNode extends DatabaseNode {
  readonly state: NodeState;
}

/** Milliseconds after which a node counts as unreachable. */
const NODE_TIMEOUT_MS = 1000;

/** A shard that is moved has a logical replication, which is no standby. */
const REPLICAS = `select count(*) from pg_stat_replication r left join pg_replication_slots s on s.active_pid = r.pid
  where s.slot_type is distinct from 'logical'`;

/**
 * Returns the nodes of a database with Citus, with the state of each. Asks every node; call it in a
 * transaction.
 */
export async function examineDatabaseNodes(db: Queryable): Promise<ExaminedNode[]> {
  const nodes = await listDatabaseNodes(db);
  await db.query(`set local citus.node_connection_timeout = ${NODE_TIMEOUT_MS}`);
  const { rows } = await db.query<{ address: string; answers: boolean; replicas: string }>(
    `select n.nodename || ':' || n.nodeport as address, r.success as answers, r.result as replicas
       from run_command_on_all_nodes($1, give_warning_for_connection_errors => true) r
       join pg_dist_node n on n.nodeid = r.nodeid`,
    [REPLICAS],
  );
  const answers = new Map(rows.map((row) => [row.address, row]));
  const listed = new Set(nodes.filter(({ role }) => role === 'standby').map(({ group }) => group));
  return nodes.map((node) => ({ ...node, state: stateOf(node, answers.get(node.address), listed) }));
}

function stateOf(
  { role, group, active }: DatabaseNode,
  answer: { readonly answers: boolean; readonly replicas: string } | undefined,
  listed: ReadonlySet<number>,
): NodeState {
  if (!active) return 'inactive';
  if (role === 'standby') return 'ok';
  if (!answer?.answers) return 'unreachable';
  return listed.has(group) || Number(answer.replicas) > 0 ? 'ok' : 'without-standby';
}
