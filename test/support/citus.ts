import type { StartedNetwork } from 'testcontainers';
import { distribute } from '../../cli/distribute/distribute.ts';
import { openClient } from '../../shared/postgres/client.ts';
import type { Pool, QueryResult } from '../../shared/postgres/pool.ts';
import { type NoContainer, startContainer } from './docker.ts';

const IMAGE = 'citusdata/citus:13.2';
const PASSWORD = 'sluice';
/** Few, because each test file copies all of them. */
const SHARDS = 8;

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
      throw new Error('TEST_CITUS_URLS: name the coordinator and at least one worker, separated by commas');
    return { how: `Citus of TEST_CITUS_URLS, ${nodes.length} nodes`, nodes, stop: async () => {} };
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

/** Distributes the tables of a migrated database. */
export async function distributeTables(pool: Pool): Promise<void> {
  await distribute({ pool, shards: SHARDS, onStep: () => undefined });
}

/** Runs the statements in order on one connection, and resolves with the result of the last one. */
export async function onServer<Row = never>(
  url: string,
  statements: readonly string[],
): Promise<QueryResult<Row>> {
  const client = await openClient({ connectionString: url, applicationName: 'sluice-test-admin' });
  try {
    let result: QueryResult<Row> = { rows: [], rowCount: null };
    for (const statement of statements) result = await client.query<Row>(statement);
    return result;
  } finally {
    await client.end();
  }
}

function givenNode(url: string): CitusNode {
  const { hostname, port } = new URL(url);
  return { url, host: hostname, port: Number(port || 5432) };
}

/** Starts a coordinator and two workers. */
async function startContainers(env: NodeJS.ProcessEnv): Promise<CitusCluster | NoContainer> {
  const started: { stop(): Promise<unknown> }[] = [];
  const stop = async () => {
    for (const each of started.toReversed()) await each.stop();
  };
  let network: StartedNetwork;
  const start = async (host: string) => {
    const [{ Network }, { PostgreSqlContainer }] = await Promise.all([
      import('testcontainers'),
      import('@testcontainers/postgresql'),
    ]);
    if (started.length === 0) {
      network = await new Network().start();
      started.push(network);
    }
    return await new PostgreSqlContainer(IMAGE)
      .withNetwork(network)
      .withNetworkAliases(host)
      .withPassword(PASSWORD)
      // The nodes connect to each other without a password.
      .withEnvironment({ POSTGRES_HOST_AUTH_METHOD: 'trust' })
      .withCommand(SETTINGS.flatMap((setting) => ['-c', setting]))
      .start();
  };
  const nodes: CitusNode[] = [];
  for (const host of ['citus-coordinator', 'citus-worker-1', 'citus-worker-2']) {
    const container = await startContainer(IMAGE, () => start(host), env);
    if ('skipped' in container) {
      await stop();
      return container;
    }
    started.push(container);
    nodes.push({ url: container.getConnectionUri(), host, port: 5432 });
  }
  return { how: `${IMAGE} in Docker, ${nodes.length} nodes`, nodes, stop };
}

const SETTINGS = [
  'shared_preload_libraries=citus',
  // A database needs a maintenance daemon, and a test file a database.
  'max_worker_processes=64',
  'max_connections=200',
  'max_prepared_transactions=400',
  'max_locks_per_transaction=1024',
  'fsync=off',
  'full_page_writes=off',
];
