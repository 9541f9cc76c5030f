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

/** Returns whether the database has the extension Citus. */
export async function hasCitus(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(`select 1 from pg_extension where extname = 'citus'`);
  return rowCount === 1;
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
