import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../embedded/postgres.ts';
import { connectionStringOf, readConnectionFile } from '../../shared/postgres/connection-file.ts';
import { createApiKey } from '../../shared/postgres/create-api-key.ts';
import { createTenant } from '../../shared/postgres/create-tenant.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { startKafkaBroker } from '../support/kafka-broker.ts';
import { freePorts, runProgram, startProgram, waitUntilReady } from '../support/program.ts';

/** The product in processes of its own, to be loaded. */
export interface LoadedProduct {
  readonly port: number;
  readonly pool: Pool;
  /** Adds a tenant without limits, and resolves with a key of it. */
  addTenant(tenantId: string): Promise<TenantKey>;
  stop(): Promise<void>;
}

export interface TenantKey {
  readonly tenantId: string;
  readonly apiKeyId: string;
  readonly secret: string;
}

/** Much as Kafka's own scripts start it: the tests' small broker stops for 200 ms every 13 s, which would be everybody's 99th percentile. */
const JAVA_OPTIONS = ['-Xms1g', '-Xmx1g', '-XX:+UseG1GC', '-XX:MaxGCPauseMillis=20'];
const logger = pino({ level: 'silent' });

/** `npm start`, as users run it. */
export async function startOnEmbeddedLog(): Promise<LoadedProduct> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const [port, adminPort] = await freePorts(2);
  const program = startProgram('embedded/main.js', {
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    SLUICE_DATA_DIR: dataDir,
    SLUICE_LOG_LEVEL: 'warn',
  });
  await waitUntilReady(program, `http://127.0.0.1:${port}`);
  await waitUntilReady(program, `http://127.0.0.1:${adminPort}`);
  const connection = await readConnectionFile(dataDir);
  return loaded(port!, connectionStringOf(connection!), async () => {
    await program.end('SIGTERM');
    await rm(dataDir, { recursive: true, force: true });
  });
}

/** A gateway and a worker on one broker and one Postgres, all of them its own. */
export async function startOnKafka(): Promise<LoadedProduct> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const [broker, postgres, [port, workerPort]] = await Promise.all([
    startKafkaBroker({ javaOptions: JAVA_OPTIONS }),
    startEmbeddedPostgres({ dataDir, logger }),
    freePorts(2),
  ]);
  const env = {
    DATABASE_URL: postgres.connectionString,
    KAFKA_BROKERS: broker.address,
    SLUICE_CREDENTIALS_KEYS: `bench:${randomBytes(32).toString('base64')}`,
    SLUICE_LOG_LEVEL: 'warn',
    SLUICE_DRAIN_DELAY_MS: '0',
    HOST: '127.0.0.1',
    PORT: String(port),
    WORKER_PORT: String(workerPort),
  };
  for (const args of [['migrate'], ['topics', 'create', '--replicas', '1']]) {
    const { code, stderr } = await runProgram('cli/main.js', args, env);
    if (code !== 0) throw new Error(`sluice ${args.join(' ')} failed: ${stderr}`);
  }
  const programs = [startProgram('gateway/main.js', env), startProgram('workers/main.js', env)] as const;
  await waitUntilReady(programs[0], `http://127.0.0.1:${port}`);
  await waitUntilReady(programs[1], `http://127.0.0.1:${workerPort}`);
  return loaded(port!, postgres.connectionString, async () => {
    await Promise.all(programs.map((program) => program.end('SIGTERM')));
    await Promise.all([broker.stop(), postgres.stop()]);
    await rm(dataDir, { recursive: true, force: true });
  });
}

function loaded(port: number, connectionString: string, stop: () => Promise<void>): LoadedProduct {
  const pool = createPool({ connectionString, max: 2, applicationName: 'sluice-bench', logger });
  return {
    port,
    pool,
    async addTenant(tenantId) {
      const now = { createdAtMs: Date.now() };
      await createTenant(pool, { tenantId, name: tenantId, rate: 'none', ...now });
      const apiKeyId = `key-${tenantId}`;
      const key = { apiKeyId, tenantId, scopes: ['*'], rate: undefined, ...now };
      return { tenantId, apiKeyId, secret: await createApiKey(pool, key) };
    },
    async stop() {
      await pool.end();
      await stop();
    },
  };
}
