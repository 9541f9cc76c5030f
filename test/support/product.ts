import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { connectionStringOf, readConnectionFile } from '../../cli/data-dir/connection-file.ts';
import { systemClock } from '../../shared/clock.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { createKafkaAdmin } from './kafka-admin.ts';
import { type PoolMode, startPgbouncer } from './pgbouncer.ts';
import { copyTemplate, type TestDatabase } from './postgres.ts';
import { freePorts, type Program, runProgram, startProgram, waitUntilReady } from './program.ts';

/** The whole product as its users run it: processes, HTTP, a database. */
export interface Product {
  readonly baseUrl: string;
  readonly adminUrl: string;
  /** Where its processes serve their metrics; undefined if the product runs in a container. */
  readonly metricsUrls?: readonly string[];
  readonly tenantId: string;
  readonly apiKeyId: string;
  readonly apiKeySecret: string;
  readonly topicPrefix: string;
  /**
   * Settings with which `sluice` can operate on the product; undefined if the product runs in a
   * container.
   */
  readonly commandEnv?: Readonly<Record<string, string>>;
  /**
   * This machine's address for the product's webhooks; loopback if the product runs on the same
   * machine.
   */
  readonly receiverHost?: string;
  /** Data directory of the embedded product. */
  readonly dataDir?: string;
  /** A pool of the test's own connections. */
  readonly pool: Pool;
  /** The event log, for operations that only tests perform. */
  readonly log: EventLog;
  /** Names of the processes that can be killed. */
  readonly parts: readonly string[];
  /** Sends SIGKILL to a part and restarts it; resolves when requests are accepted again. */
  killAndRestart(part: string): Promise<void>;
  /** Returns all output of the processes, including killed ones. */
  output(): string;
  stop(): Promise<void>;
}

/** The product as separate processes, with more operations for tests. */
export interface OwnProduct extends Product {
  readonly database: TestDatabase;
  /** Shuts a part down, does the work, and restarts the part; resolves when the part is ready. */
  whileStopped(part: string, work: () => Promise<void>): Promise<void>;
}

const logger = pino({ level: 'silent' });

/** Runs `npm start` on a separate directory. `settings` are additional settings. */
export async function startEmbeddedProduct(
  logLevel = 'debug',
  settings: Readonly<Record<string, string>> = {},
): Promise<Product> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-e2e-'));
  const [port, adminPort, metricsPort] = await freePorts(3);
  const env = {
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    METRICS_PORT: String(metricsPort),
    SLUICE_DATA_DIR: dataDir,
    SLUICE_LOG_LEVEL: logLevel,
    ...settings,
  };
  const programs: Program[] = [];
  const start = async () => {
    const program = startProgram('embedded/main.js', env);
    programs.push(program);
    await waitUntilReady(program, `http://127.0.0.1:${port}`);
    await waitUntilReady(program, `http://127.0.0.1:${adminPort}`);
  };
  await start();
  const demo = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'));
  // Postgres uses another port after each start that finds no running server, so the pool is
  // recreated.
  let pool = await openPool(dataDir);
  const openLog = () => createEmbeddedLog({ pool, clock: systemClock, logger });
  let log = openLog();
  const closeTools = async () => {
    await log.close();
    await pool.end();
  };
  return {
    ...demo,
    metricsUrls: [demo.metricsUrl],
    topicPrefix: 'sluice.',
    commandEnv: { PORT: env.PORT, ADMIN_PORT: env.ADMIN_PORT, SLUICE_DATA_DIR: dataDir },
    dataDir,
    get pool() {
      return pool;
    },
    get log() {
      return log;
    },
    parts: ['sluice'],
    async killAndRestart() {
      await programs.at(-1)!.end('SIGKILL');
      await start();
      await closeTools();
      pool = await openPool(dataDir);
      log = openLog();
    },
    output: () => programs.map((program) => program.output()).join(''),
    async stop() {
      await closeTools();
      await programs.at(-1)!.end('SIGTERM');
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/**
 * Starts gateway, workers and admin listener as separate processes, on the brokers and a database
 * of the test server. `settings` are additional settings of all parts. With `poolMode`, or the
 * variable SLUICE_TEST_POOL_MODE, the parts reach the database through pgbouncer.
 */
export async function startOwnProduct(
  brokers: string,
  logLevel = 'debug',
  settings: Readonly<Record<string, string>> = {},
  poolMode = process.env.SLUICE_TEST_POOL_MODE as PoolMode | undefined,
): Promise<OwnProduct> {
  const database = await copyTemplate();
  const pooler = poolMode && (await startPgbouncer(database.url, poolMode));
  const [port, adminPort, workerPort, metricsPort] = await freePorts(4);
  const topicPrefix = `test-${randomBytes(6).toString('hex')}.`;
  const env = {
    DATABASE_URL: pooler?.url ?? database.url,
    KAFKA_BROKERS: brokers,
    SLUICE_TOPIC_PREFIX: topicPrefix,
    // The shortest timeout that brokers accept by default, so that a killed worker's partitions are
    // reassigned sooner.
    SLUICE_KAFKA_SESSION_MS: '6000',
    SLUICE_CREDENTIALS_KEYS: `test:${randomBytes(32).toString('base64')}`,
    SLUICE_WEBHOOK_ALLOW: '127.0.0.0/8',
    SLUICE_DRAIN_DELAY_MS: '0',
    SLUICE_LOG_LEVEL: logLevel,
    HOST: '127.0.0.1',
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    WORKER_PORT: String(workerPort),
    ...settings,
  };
  const sluice = async (...args: string[]) => {
    const { code, stdout, stderr } = await runProgram('cli/main.js', [...args, '--json'], env);
    if (code !== 0) throw new Error(`sluice ${args.join(' ')} failed: ${stderr}`);
    return JSON.parse(stdout);
  };
  await sluice('topics', 'create', '--replicas', '1');
  await sluice('tenants', 'create', 'acme', '--rate', 'none');
  const key = await sluice('keys', 'create', '--tenant', 'acme', '--scope', '*');

  const scripts: Readonly<Record<string, [script: string, url: string]>> = {
    gateway: ['gateway/main.js', `http://127.0.0.1:${port}`],
    worker: ['workers/main.js', `http://127.0.0.1:${workerPort}`],
    admin: ['admin/main.js', `http://127.0.0.1:${adminPort}`],
  };
  const programs = new Map<string, Program>();
  let ended = '';
  const start = (part: string) => {
    const [script, url] = scripts[part]!;
    const program = startProgram(script, { ...env, METRICS_PORT: String(metricsPort) });
    programs.set(part, program);
    return { program, url };
  };
  const end = async (part: string, signal: NodeJS.Signals) => {
    const program = programs.get(part)!;
    await program.end(signal);
    ended += program.output();
  };
  const startReady = async (part: string) => {
    const { program, url } = start(part);
    await waitUntilReady(program, url);
  };
  await Promise.all(Object.keys(scripts).map(startReady));
  const log = createKafkaLog({ brokers: brokers.split(','), clientId: 'sluice-test', logger });
  return {
    baseUrl: scripts.gateway![1],
    adminUrl: scripts.admin![1],
    metricsUrls: [metricsPort, adminPort, workerPort].map((each) => `http://127.0.0.1:${each}/metrics`),
    ...key,
    topicPrefix,
    database,
    commandEnv: env,
    pool: database.pool,
    log,
    parts: ['gateway', 'worker'],
    async killAndRestart(part) {
      await end(part, 'SIGKILL');
      // A worker gets partitions after Kafka has evicted the killed one. The gateway keeps serving
      // meanwhile.
      if (part === 'worker') start(part);
      else await startReady(part);
    },
    async whileStopped(part, work) {
      await end(part, 'SIGTERM');
      await work();
      await startReady(part);
    },
    output: () => ended + [...programs.values()].map((program) => program.output()).join(''),
    async stop() {
      await Promise.all([...programs.values()].map((program) => program.end('SIGTERM')));
      await log.close();
      const admin = await createKafkaAdmin(brokers.split(','));
      await admin.deleteTopics(topicPrefix);
      await admin.close();
      await database.drop();
      await pooler?.stop();
    },
  };
}

async function openPool(dataDir: string): Promise<Pool> {
  const connection = await readConnectionFile(dataDir);
  if (!connection) throw new Error(`no connection file in ${dataDir}`);
  return createPool({
    connectionString: connectionStringOf(connection),
    max: 5,
    applicationName: 'sluice-test',
    logger,
  });
}
