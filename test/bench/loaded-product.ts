import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { connectionStringOf, readConnectionFile } from '../../cli/data-dir/connection-file.ts';
import { startEmbeddedPostgres } from '../../embedded/postgres/postgres.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { startKafkaBroker } from '../support/kafka-broker.ts';
import {
  freePorts,
  type Program,
  ROOT,
  runProgram,
  startProgram,
  waitUntilReady,
} from '../support/program.ts';

/** The parts of the product that run in a process of their own on Kafka. */
export type Part = 'gateway' | 'workers' | 'admin';

/** The product in separate processes, under load. */
export interface LoadedProduct {
  readonly port: number;
  readonly adminPort: number;
  readonly connectionString: string;
  readonly pool: Pool;
  /** The settings of its processes. */
  readonly env: Env;
  /** Bootstrap broker; undefined on the embedded log. */
  readonly broker: string | undefined;
  /** Process ids of the running parts: `product` (embedded), or `gateway`, `workers` and `admin`. */
  readonly pids: Readonly<Record<string, number>>;
  /** Starts a part that was left out or stopped, and resolves when it is ready. Kafka only. */
  startPart(part: Part, options?: PartOptions): Promise<void>;
  /** Shuts a part down. Kafka only. */
  stopPart(part: Part): Promise<void>;
  /** Runs a command with `--json` on the product, and resolves with what it printed. */
  sluice(...args: readonly string[]): Promise<unknown>;
  /**
   * Adds a tenant, by default without limits. Resolves with one of its keys, which has every scope.
   */
  addTenant(tenantId: string, options?: { readonly limited?: boolean }): Promise<TenantKey>;
  /** Stops only Postgres. Undefined if Postgres belongs to the product's process. */
  readonly stopPostgres?: () => Promise<void>;
  /** Kills everything that is still running and deletes its data. */
  stop(): Promise<void>;
}

export interface PartOptions {
  readonly args?: readonly string[];
  /** Settings in addition to those of all parts. */
  readonly settings?: Env;
  /** Options of Node. */
  readonly nodeOptions?: readonly string[];
}

export interface TenantKey {
  readonly tenantId: string;
  readonly name: string;
  readonly apiKeyId: string;
  readonly secret: string;
}

/**
 * Similar to the options of Kafka's own scripts. The small broker of the tests pauses for 200 ms
 * every 13 s, which would dominate every 99th percentile.
 */
const JAVA_OPTIONS = ['-Xms1g', '-Xmx1g', '-XX:+UseG1GC', '-XX:MaxGCPauseMillis=20'];
/**
 * Milliseconds that a part may take to exit on SIGTERM. An attacked process may not exit at all.
 */
const END_TIMEOUT_MS = 20_000;
const logger = pino({ level: 'silent' });

export interface StartOptions {
  /** Directory of another built checkout, with a trailing slash. Default: this one. */
  readonly root?: string | undefined;
}

/** Starts `npm start` of the build in `root`, as users run it. */
export async function startOnEmbeddedLog({ root = ROOT }: StartOptions = {}): Promise<LoadedProduct> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const [port, adminPort] = await freePorts(2);
  const env = {
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    SLUICE_DATA_DIR: dataDir,
    SLUICE_LOG_LEVEL: 'warn',
  };
  const program = startProgram('embedded/main.js', env, { root, nodeOptions: await startOptions(root) });
  await waitUntilReady(program, `http://127.0.0.1:${port}`);
  await waitUntilReady(program, `http://127.0.0.1:${adminPort}`);
  const connection = await readConnectionFile(dataDir);
  return loaded({
    port: port!,
    adminPort: adminPort!,
    connectionString: connectionStringOf(connection!),
    broker: undefined,
    env,
    root,
    programs: new Map([['product', program]]),
    start: () => Promise.reject(new Error('on the embedded log all parts run in one process')),
    afterwards: () => rm(dataDir, { recursive: true, force: true }),
  });
}

/** Resolves with the options of Node in the script `start` of a checkout. */
async function startOptions(root: string): Promise<string[]> {
  const { scripts } = JSON.parse(await readFile(`${root}package.json`, 'utf8')) as {
    readonly scripts: { readonly start: string };
  };
  return scripts.start.split(' ').filter((word) => word.startsWith('--'));
}

export interface KafkaStartOptions extends StartOptions {
  /** The parts to start. Default: all. */
  readonly parts?: readonly Part[];
  /** Additional settings of all parts. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Additional settings of Postgres. */
  readonly postgres?: Readonly<Record<string, string>>;
}

/**
 * Starts a gateway, a worker and an admin process of the build in `root`, with a separate broker
 * and Postgres.
 */
export async function startOnKafka(options: KafkaStartOptions = {}): Promise<LoadedProduct> {
  const {
    root = ROOT,
    parts = ['gateway', 'workers', 'admin'],
    settings = {},
    postgres: tuning = {},
  } = options;
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const [broker, postgres, [port, adminPort, workerPort]] = await Promise.all([
    startKafkaBroker({ javaOptions: JAVA_OPTIONS }),
    startEmbeddedPostgres({ dataDir, logger, settings: tuning }),
    freePorts(3),
  ]);
  const env = {
    DATABASE_URL: postgres.connectionString,
    KAFKA_BROKERS: broker.address,
    SLUICE_CREDENTIALS_KEYS: `bench:${randomBytes(32).toString('base64')}`,
    SLUICE_WEBHOOK_ALLOW: '127.0.0.0/8',
    SLUICE_LOG_LEVEL: 'warn',
    SLUICE_DRAIN_DELAY_MS: '0',
    HOST: '127.0.0.1',
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    WORKER_PORT: String(workerPort),
    ...settings,
  };
  await runCommand(['migrate'], env, root);
  await runCommand(['topics', 'create', '--replicas', '1'], env, root);
  const portOf = { gateway: port, workers: workerPort, admin: adminPort };
  const start = async (part: Part, { settings, ...options }: PartOptions = {}) => {
    const program = startProgram(`${part}/main.js`, { ...env, ...settings }, { root, ...options });
    await waitUntilReady(program, `http://127.0.0.1:${portOf[part]}`);
    return program;
  };
  const programs = await Promise.all(parts.map(async (part) => [part, await start(part)] as const));
  let running = true;
  const stopPostgres = async () => {
    if (running) await postgres.stop();
    running = false;
  };
  return loaded({
    port: port!,
    adminPort: adminPort!,
    connectionString: postgres.connectionString,
    broker: broker.address,
    env,
    root,
    programs: new Map(programs),
    start,
    stopPostgres,
    async afterwards() {
      await Promise.all([broker.stop(), stopPostgres()]);
      await rm(dataDir, { recursive: true, force: true });
    },
  });
}

type Env = Readonly<Record<string, string>>;

interface Parts {
  readonly port: number;
  readonly adminPort: number;
  readonly connectionString: string;
  readonly broker: string | undefined;
  readonly env: Env;
  readonly root: string;
  readonly programs: Map<string, Program>;
  start(part: Part, options?: PartOptions): Promise<Program>;
  readonly stopPostgres?: () => Promise<void>;
  afterwards(): Promise<void>;
}

function loaded({ env, root, programs, start, afterwards, ...rest }: Parts): LoadedProduct {
  const { connectionString } = rest;
  const pool = createPool({ connectionString, max: 2, applicationName: 'sluice-bench', logger });
  return {
    ...rest,
    env,
    pool,
    get pids() {
      return Object.fromEntries([...programs].map(([part, { process }]) => [part, process.pid!]));
    },
    async startPart(part, options) {
      programs.set(part, await start(part, options));
    },
    async stopPart(part) {
      const program = programs.get(part);
      programs.delete(part);
      if (program) await endOrKill(program);
    },
    sluice: async (...args) => JSON.parse(await runCommand([...args, '--json'], env, root)),
    addTenant: (tenantId, { limited = false } = {}) => addTenant(pool, tenantId, limited),
    async stop() {
      await pool.end();
      await Promise.all([...programs.values()].map(endOrKill));
      await afterwards();
    },
  };
}

/** Runs a command of the build in `root`, and resolves with its output. */
async function runCommand(args: readonly string[], env: Env, root: string): Promise<string> {
  const { code, stdout, stderr } = await runProgram('cli/main.js', args, env, root, root);
  if (code !== 0) throw new Error(`sluice ${args.join(' ')} failed: ${stderr}`);
  return stdout;
}

async function endOrKill(program: Program): Promise<void> {
  const kill = setTimeout(() => program.process.kill('SIGKILL'), END_TIMEOUT_MS);
  await program.end('SIGTERM');
  clearTimeout(kill);
}

/** Adds a tenant with plain SQL that is valid for the schemas of earlier builds too. */
async function addTenant(pool: Pool, tenantId: string, limited: boolean): Promise<TenantKey> {
  const now = new Date();
  const key = { tenantId, name: tenantId, apiKeyId: `key-${tenantId}`, secret: `secret-of-${tenantId}` };
  await pool.query('insert into tenants (tenant_id, name, unlimited, created_at) values ($1, $1, $2, $3)', [
    tenantId,
    !limited,
    now,
  ]);
  await pool.query(
    `insert into api_keys (api_key_id, tenant_id, secret_sha256, scopes, created_at) values ($1, $2, $3, '{*}', $4)`,
    [key.apiKeyId, tenantId, createHash('sha256').update(key.secret).digest(), now],
  );
  return key;
}
