import {
  type DatabaseNode,
  examineDatabaseNodes,
  NODE_STATES,
  type NodeState,
} from '../shared/postgres/database-nodes.ts';
import { databaseGauge, type Sample } from './database-gauge.ts';

/** Reports the nodes of a database with Citus. Returns the function that ends this. */
export const reportDatabaseNodes = databaseGauge({
  name: 'sluice_database_nodes',
  help: 'Nodes of a database with Citus by role (coordinator, worker, or standby in its list of nodes) and state: ok, without-standby (it answers, but the coordinator knows no standby of it), unreachable (it does not answer the coordinator within 1 s) or inactive. Absent on one Postgres. Read from the database at most every 15 s; every worker reports the same, so use max().',
  labelNames: ['role', 'state'],
  read: async (db) => (db.isCitus ? samplesOf(await examineDatabaseNodes(db)) : []),
});

const ROLES: readonly DatabaseNode['role'][] = ['coordinator', 'worker', 'standby'];

type CountedNode = Pick<DatabaseNode, 'role'> & { readonly state: NodeState };

/** Returns the number of nodes per role and state, also those of 0; nothing without nodes. */
export function samplesOf(nodes: readonly CountedNode[]): Sample[] {
  if (nodes.length === 0) return [];
  return ROLES.flatMap((role) =>
    NODE_STATES.map((state) => ({
      labels: { role, state },
      value: nodes.filter((node) => node.role === role && node.state === state).length,
    })),
  );
}
