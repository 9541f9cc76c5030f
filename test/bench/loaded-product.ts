import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
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

/** The product in separate processes, under load. */
export interface LoadedProduct {
  readonly port: number;
  readonly adminPort: number;
  readonly pool: Pool;
  /** Process ids by part: `product` (embedded), or `gateway`, `workers` and `admin`. */
  readonly pids: Readonly<Record<string, number>>;
  /**
   * Adds a tenant, by default without limits. Resolves with one of its keys, which has every scope.
   */
  addTenant(tenantId: string, options?: { readonly limited?: boolean }): Promise<TenantKey>;
  /** Stops only Postgres. Undefined if Postgres belongs to the product's process. */
  readonly stopPostgres?: () => Promise<void>;
  /** Kills everything that is still running and deletes its data. */
  stop(): Promise<void>;
}

export interface TenantKey {
  readonly tenantId: string;
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

/** Starts `npm start` of the build in `root`, as users run it. */
export async function startOnEmbeddedLog(root = ROOT): Promise<LoadedProduct> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const [port, adminPort] = await freePorts(2);
  const env = {
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    SLUICE_DATA_DIR: dataDir,
    SLUICE_LOG_LEVEL: 'warn',
  };
  const program = startProgram('embedded/main.js', env, { root });
  await waitUntilReady(program, `http://127.0.0.1:${port}`);
  await waitUntilReady(program, `http://127.0.0.1:${adminPort}`);
  const connection = await readConnectionFile(dataDir);
  return loaded({
    port: port!,
    adminPort: adminPort!,
    connectionString: connectionStringOf(connection!),
    programs: { product: program },
    afterwards: () => rm(dataDir, { recursive: true, force: true }),
  });
}

/**
 * Starts a gateway, a worker and an admin process of the build in `root`, with a separate broker
 * and Postgres.
 */
export async function startOnKafka(root = ROOT): Promise<LoadedProduct> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const [broker, postgres, [port, adminPort, workerPort]] = await Promise.all([
    startKafkaBroker({ javaOptions: JAVA_OPTIONS }),
    startEmbeddedPostgres({ dataDir, logger }),
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
  };
  for (const args of [['migrate'], ['topics', 'create', '--replicas', '1']]) {
    const { code, stderr } = await runProgram('cli/main.js', args, env, root, root);
    if (code !== 0) throw new Error(`sluice ${args.join(' ')} failed: ${stderr}`);
  }
  const programs = {
    gateway: startProgram('gateway/main.js', env, { root }),
    workers: startProgram('workers/main.js', env, { root }),
    admin: startProgram('admin/main.js', env, { root }),
  };
  await waitUntilReady(programs.gateway, `http://127.0.0.1:${port}`);
  await waitUntilReady(programs.workers, `http://127.0.0.1:${workerPort}`);
  await waitUntilReady(programs.admin, `http://127.0.0.1:${adminPort}`);
  let running = true;
  const stopPostgres = async () => {
    if (running) await postgres.stop();
    running = false;
  };
  return loaded({
    port: port!,
    adminPort: adminPort!,
    connectionString: postgres.connectionString,
    programs,
    stopPostgres,
    async afterwards() {
      await Promise.all([broker.stop(), stopPostgres()]);
      await rm(dataDir, { recursive: true, force: true });
    },
  });
}

interface Parts {
  readonly port: number;
  readonly adminPort: number;
  readonly connectionString: string;
  readonly programs: Readonly<Record<string, Program>>;
  readonly stopPostgres?: () => Promise<void>;
  afterwards(): Promise<void>;
}

function loaded({ connectionString, programs, afterwards, ...rest }: Parts): LoadedProduct {
  const pool = createPool({ connectionString, max: 2, applicationName: 'sluice-bench', logger });
  return {
    ...rest,
    pool,
    pids: Object.fromEntries(Object.entries(programs).map(([part, { process }]) => [part, process.pid!])),
    addTenant: (tenantId, { limited = false } = {}) => addTenant(pool, tenantId, limited),
    async stop() {
      await pool.end();
      await Promise.all(Object.values(programs).map(endOrKill));
      await afterwards();
    },
  };
}

async function endOrKill(program: Program): Promise<void> {
  const kill = setTimeout(() => program.process.kill('SIGKILL'), END_TIMEOUT_MS);
  await program.end('SIGTERM');
  clearTimeout(kill);
}

/** Adds a tenant with plain SQL that is valid for the schemas of earlier builds too. */
async function addTenant(pool: Pool, tenantId: string, limited: boolean): Promise<TenantKey> {
  const now = new Date();
  const key = { tenantId, apiKeyId: `key-${tenantId}`, secret: `secret-of-${tenantId}` };
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
