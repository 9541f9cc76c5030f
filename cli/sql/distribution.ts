import { PART_NAMES } from '../../shared/postgres/client.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/** How a database with Citus stores a table. */
export interface StoredTable {
  readonly table: string;
  /** `other` is a method of distribution that Sluice does not use. */
  readonly placement: 'distributed' | 'reference' | 'registered' | 'local' | 'other';
  /** The column by which it is distributed. */
  readonly column: string | null;
  /** Tables with the same number have their shards in the same places. */
  readonly colocationId: number | null;
  readonly shards: number;
  /** Bytes that were stored before the table was distributed, and that no statement reads any more. */
  readonly leftBytes: bigint;
}

/** Returns how the database stores the tables, in their order. */
export async function readDistribution(db: Queryable, tables: readonly string[]): Promise<StoredTable[]> {
  const { rows } = await db.query<StoredTable>(
    `select wanted.name as "table",
            case when p.logicalrelid is null then 'local'
                 when p.partmethod = 'h' then 'distributed'
                 when p.partmethod = 'n' and p.repmodel = 't' then 'reference'
                 when p.partmethod = 'n' and p.colocationid = 0 then 'registered'
                 else 'other' end as placement,
            case when p.partmethod = 'h' then column_to_column_name(p.logicalrelid, p.partkey) end as "column",
            p.colocationid::integer as "colocationId",
            (select count(*)::integer from pg_dist_shard s where s.logicalrelid = p.logicalrelid) as shards,
            case when p.logicalrelid is null or p.colocationid = 0 then 0
                 else pg_relation_size(p.logicalrelid)
                      + coalesce((select sum(pg_relation_size(inhrelid)) from pg_inherits where inhparent = p.logicalrelid), 0)
            end::bigint as "leftBytes"
       from unnest($1::text[]) with ordinality as wanted (name, place)
       left join pg_dist_partition p on p.logicalrelid = to_regclass(wanted.name)
      order by wanted.place`,
    [tables],
  );
  return rows;
}

/** Returns whether a table is distributed. */
export async function isDistributed(db: Queryable): Promise<boolean> {
  if (!db.isCitus) return false;
  const { rowCount } = await db.query(`select 1 from pg_dist_partition where partmethod = 'h' limit 1`);
  return rowCount === 1;
}

/** Copies the table to every node. */
export async function makeReference(db: Queryable, table: string): Promise<void> {
  await db.query('select create_reference_table($1::text::regclass)', [table]);
}

/** Distributes the table by tenant over this number of shards. */
export async function distributeFirst(db: Queryable, table: string, shards: number): Promise<void> {
  await db.query(
    `select create_distributed_table($1::text::regclass, 'tenant_id', colocate_with => 'none', shard_count => $2::integer)`,
    [table, shards],
  );
}

/** Distributes the table by tenant. A tenant's shard lies on the node of its shard of `first`. */
export async function distributeWith(db: Queryable, table: string, first: string): Promise<void> {
  await db.query(
    `select create_distributed_table($1::text::regclass, 'tenant_id', colocate_with => $2::text)`,
    [table, first],
  );
}

/** Makes the table, which stays on the coordinator, known to Citus. */
export async function registerTable(db: Queryable, table: string): Promise<void> {
  await db.query('select citus_add_local_table_to_metadata($1::text::regclass)', [table]);
}

/** Deletes the rows that were copied to the shards of the table. */
export async function deleteLeft(db: Queryable, table: string): Promise<void> {
  await db.query('select truncate_local_data_after_distributing_table($1::text::regclass)', [table]);
}

/** Returns the database's migrations with a number above this one, which a newer release applied. */
export async function newerMigrations(db: Queryable, version: number): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select name from schema_migrations where name ~ '^[0-9]{4}_' and left(name, 4)::integer > $1 order by name`,
    [version],
  );
  return rows.map(({ name }) => name);
}

/** Returns the coordinator's address if this database is a worker of it; undefined if it is not. */
export async function readCoordinator(db: Queryable): Promise<string | undefined> {
  const { rows } = await db.query<{ address: string | null }>(
    `select (select nodename || ':' || nodeport from pg_dist_node where groupid = 0 and noderole = 'primary') as address
       from pg_dist_local_group
      where groupid <> 0`,
  );
  return rows[0] && (rows[0].address ?? '');
}

/** Returns the parts of Sluice that are connected to the database. */
export async function connectedParts(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select distinct application_name as name
       from pg_stat_activity
      where datname = current_database() and application_name = any($1::text[])`,
    [Object.values(PART_NAMES)],
  );
  const names = new Set(rows.map(({ name }) => name));
  return Object.entries(PART_NAMES).flatMap(([part, name]) => (names.has(name) ? [part] : []));
}

/** The settings of nodes without which a commit that was reported can be lost. */
const DURABLE_SETTINGS = ['fsync', 'full_page_writes', 'synchronous_commit'];

/** Returns the settings with which nodes that answer can lose commits, as `worker1:5432 fsync`. */
export async function findUnsafeSettings(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ address: string; names: string }>(
    `select n.nodename || ':' || n.nodeport as address, r.result as names
       from run_command_on_all_nodes($1, give_warning_for_connection_errors => true) r
       join pg_dist_node n on n.nodeid = r.nodeid
      where r.success and r.result <> ''
      order by n.nodeid`,
    [
      `select coalesce(string_agg(name, ',' order by name), '') from pg_settings
        where name in ('${DURABLE_SETTINGS.join("', '")}') and setting = 'off'`,
    ],
  );
  return rows.flatMap(({ address, names }) => names.split(',').map((name) => `${address} ${name}`));
}

/** Returns the number of jobs of Citus that move shards, or wait to do so. */
export async function countRebalances(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ jobs: number }>(
    `select count(*)::integer as jobs from pg_dist_background_job where state in ('scheduled', 'running', 'failing')`,
  );
  return rows[0]!.jobs;
}
