import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { connectionStringOf, readConnectionFile } from '../../cli/data-dir/connection-file.ts';
import { systemClock } from '../../shared/clock.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { freePorts } from '../support/program.ts';
import type { Laboratory } from './laboratory.ts';
import { createPart } from './part.ts';
import { postgresProcesses } from './postgres-processes.ts';
import { startReceivers } from './receivers.ts';
import { sluiceWith } from './sluice.ts';
import { createTenants } from './tenants.ts';

const logger = pino({ level: 'silent' });

export interface EmbeddedLaboratoryOptions {
  /** Parent of the data directory; a new directory by default. */
  readonly parentDir?: string;
}

/** Starts `npm start` unchanged: one process, with its own Postgres that also holds the log. */
export async function startEmbeddedLaboratory(options: EmbeddedLaboratoryOptions = {}): Promise<Laboratory> {
  const parent = options.parentDir ?? (await realpath(await mkdtemp(join(tmpdir(), 'sluice-faults-'))));
  // If this process is root, Postgres runs as a different user.
  await chmod(parent, 0o711);
  const dataDir = join(parent, 'data');
  const [port, adminPort] = await freePorts(2);
  const env = {
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    SLUICE_DATA_DIR: dataDir,
    SLUICE_WEBHOOK_ALLOW: '127.0.0.0/8',
    SLUICE_LOG_LEVEL: 'info',
  };
  const part = createPart({
    name: 'sluice',
    url: `http://127.0.0.1:${port}`,
    // Reports the workers' health.
    otherUrls: [`http://127.0.0.1:${adminPort}`],
    script: 'embedded/main.js',
    env,
  });
  part.start();
  await part.ready();
  const databaseUrl = async () => connectionStringOf((await readConnectionFile(dataDir))!);
  let opened: { url: string; pool: Pool; log: EventLog } | undefined;

  /**
   * Opens a pool. Postgres uses another port after each product start that finds no running server.
   */
  async function open() {
    const url = await databaseUrl();
    if (opened?.url === url) return opened;
    await close();
    const pool = createPool({ connectionString: url, max: 4, applicationName: 'sluice-faults', logger });
    opened = { url, pool, log: createEmbeddedLog({ pool, clock: systemClock, logger }) };
    return opened;
  }

  async function close() {
    await opened?.log.close();
    await opened?.pool.end();
    opened = undefined;
  }

  const sluice = sluiceWith({
    SLUICE_DATA_DIR: dataDir,
    SLUICE_WEBHOOK_ALLOW: env.SLUICE_WEBHOOK_ALLOW,
  });

  const { tenants, receivers } = await createTenants(sluice, startReceivers);
  return {
    log: 'embedded',
    topicPrefix: 'sluice.',
    tenants,
    gateways: [part],
    workers: [part],
    parts: [part],
    postgres: postgresProcesses(join(dataDir, 'postgres')),
    databaseUrl,
    pool: async () => (await open()).pool,
    eventLog: async () => (await open()).log,
    receivers,
    cluster: undefined,
    databaseProxies: {},
    sluice,
    async stop() {
      await close();
      await part.terminate();
      await receivers.close();
      await rm(parent, { recursive: true, force: true });
    },
  };
}
