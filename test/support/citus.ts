import { openClient } from '../../shared/postgres/client.ts';
import { type NoContainer, startContainer } from './docker.ts';

const IMAGE = 'citusdata/citus:13.2';
const PASSWORD = 'sluice';

/** A Postgres server of a Citus cluster. */
export interface CitusNode {
  /** Where the tests reach it. */
  readonly url: string;
  /** Where the other nodes reach it. */
  readonly host: string;
  readonly port: number;
}

/** The Citus cluster of a test run: the coordinator, then the workers. */
export interface CitusCluster {
  readonly how: string;
  readonly nodes: readonly CitusNode[];
  stop(): Promise<void>;
}

/**
 * Finds a Citus cluster: TEST_CITUS_URLS, or containers if SLUICE_TEST_CITUS is `docker`. Resolves
 * with the reason if there is none.
 */
export async function findCitusCluster(
  env: NodeJS.ProcessEnv = process.env,
): Promise<CitusCluster | NoContainer> {
  const given = env.TEST_CITUS_URLS;
  if (given) {
    const nodes = given.split(',').map(givenNode);
    if (nodes.length < 2)
      throw new Error('TEST_CITUS_URLS: a coordinator and at least one worker are needed');
    return { how: `Citus of TEST_CITUS_URLS, ${described(nodes)}`, nodes, stop: async () => {} };
  }
  if (env.SLUICE_TEST_CITUS !== 'docker') return { skipped: 'TEST_CITUS_URLS is not set' };
  return await startContainers(env);
}

/** Adds the nodes to a database that exists on each of them, all by the same name. */
export async function addNodes(urls: readonly string[], nodes: readonly CitusNode[]): Promise<void> {
  for (const url of urls) await onServer(url, ['create extension if not exists citus']);
  const [coordinator, ...workers] = nodes;
  await onServer(urls[0]!, [
    `select citus_set_coordinator_host('${coordinator!.host}', ${coordinator!.port})`,
    ...workers.map(({ host, port }) => `select citus_add_node('${host}', ${port})`),
  ]);
}

/** Tables that name a tenant but stay on the coordinator, because they are small or read over all tenants. */
const LOCAL = [
  'api_keys',
  'dead_letters',
  'analytics_readers',
  'tenant_usage',
  'credential_erasures',
  'erasures',
  'erased_ids',
  'data_quality',
  'data_quality_deltas',
  'webhook_recoveries',
];

/** Distributes the tables of a migrated database. */
export async function distributeTables(url: string): Promise<void> {
  const client = await openClient({ connectionString: url, applicationName: 'sluice-test-admin' });
  try {
    await client.query(`select create_reference_table('tenants')`);
    await client.query(`select create_distributed_table('event_keys', 'tenant_id', colocate_with => 'none')`);
    const { rows } = await client.query<{ name: string }>(
      `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
       where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
         and c.relname <> all ($1) order by c.relname`,
      [['tenants', 'event_keys', ...LOCAL]],
    );
    for (const { name } of rows) {
      await client.query(`select create_distributed_table($1, 'tenant_id', colocate_with => 'event_keys')`, [
        name,
      ]);
    }
  } finally {
    await client.end();
  }
}

export async function onServer(url: string, statements: readonly string[]): Promise<void> {
  const client = await openClient({ connectionString: url, applicationName: 'sluice-test-admin' });
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

function givenNode(url: string): CitusNode {
  const { hostname, port } = new URL(url);
  return { url, host: hostname, port: Number(port || 5432) };
}

function described(nodes: readonly CitusNode[]): string {
  return `coordinator and ${nodes.length - 1} workers`;
}

/** Starts a coordinator and two workers. */
async function startContainers(env: NodeJS.ProcessEnv): Promise<CitusCluster | NoContainer> {
  const { Network } = await import('testcontainers');
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql');
  let network: Awaited<ReturnType<InstanceType<typeof Network>['start']>> | undefined;
  const started: Awaited<ReturnType<InstanceType<typeof PostgreSqlContainer>['start']>>[] = [];
  const stop = async () => {
    for (const container of started) await container.stop();
    await network?.stop();
  };
  const nodes: CitusNode[] = [];
  for (const host of ['citus-coordinator', 'citus-worker-1', 'citus-worker-2']) {
    const container = await startContainer(
      IMAGE,
      async () => {
        network ??= await new Network().start();
        return await new PostgreSqlContainer(IMAGE)
          .withNetwork(network)
          .withNetworkAliases(host)
          .withPassword(PASSWORD)
          // The nodes connect to each other without a password.
          .withEnvironment({ POSTGRES_HOST_AUTH_METHOD: 'trust' })
          .withCommand(SETTINGS.flatMap((setting) => ['-c', setting]))
          .start();
      },
      env,
    );
    if ('skipped' in container) {
      await stop();
      return container;
    }
    started.push(container);
    nodes.push({ url: container.getConnectionUri(), host, port: 5432 });
  }
  return { how: `${IMAGE} in Docker, ${described(nodes)}`, nodes, stop };
}

const SETTINGS = [
  'shared_preload_libraries=citus',
  // A database needs a maintenance daemon, and a test file a database.
  'max_worker_processes=64',
  'max_connections=200',
  'max_prepared_transactions=400',
  'max_locks_per_transaction=1024',
  'citus.shard_count=8',
  'fsync=off',
  'full_page_writes=off',
];
