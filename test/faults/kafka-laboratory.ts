import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { createPool } from '../../shared/postgres/pool.ts';
import { startKafkaCluster } from '../support/kafka-cluster.ts';
import { startOwnPostgres } from '../support/own-postgres.ts';
import { freePorts } from '../support/program.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import type { Laboratory } from './laboratory.ts';
import { createPart } from './part.ts';
import { startReceivers } from './receivers.ts';
import { sluiceWith } from './sluice.ts';
import { createTenants } from './tenants.ts';

const logger = pino({ level: 'silent' });

export interface KafkaLaboratoryOptions {
  /** Data directories of the brokers; new directories by default. */
  readonly brokerDirs?: readonly string[];
  readonly postgresDir?: string;
  /** Additional settings of Postgres. */
  readonly postgresSettings?: Readonly<Record<string, string>>;
  /**
   * Root of another release's build, which sets everything up and runs first. Default: this
   * release.
   */
  readonly release?: string;
}

/** Starts 3 brokers, Postgres, 2 gateways and 2 workers, with a proxy on each link between them. */
export async function startKafkaLaboratory(options: KafkaLaboratoryOptions = {}): Promise<Laboratory> {
  const [cluster, postgres] = await Promise.all([
    startKafkaCluster({
      brokers: 3,
      clients: ['gateway', 'worker'],
      ...(options.brokerDirs ? { dataDirs: [...options.brokerDirs] } : {}),
    }),
    startOwnPostgres({
      ...(options.postgresDir === undefined ? {} : { dataDir: options.postgresDir }),
      ...(options.postgresSettings ? { settings: options.postgresSettings } : {}),
    }),
  ]);
  const target = { host: '127.0.0.1', port: Number(new URL(postgres.url).port) };
  const databaseProxies = { gateway: await startTcpProxy(target), worker: await startTcpProxy(target) };
  const topicPrefix = 'sluice.';
  const shared = {
    SLUICE_TOPIC_PREFIX: topicPrefix,
    SLUICE_CREDENTIALS_KEYS: `test:${randomBytes(32).toString('base64')}`,
    SLUICE_WEBHOOK_ALLOW: '127.0.0.0/8',
  };
  const env = {
    ...shared,
    // The shortest session timeout that brokers accept by default.
    SLUICE_KAFKA_SESSION_MS: '6000',
    SLUICE_DRAIN_DELAY_MS: '1000',
    SLUICE_LOG_LEVEL: 'info',
    HOST: '127.0.0.1',
  };
  const ports = await freePorts(4);
  const part = (kind: 'gateway' | 'worker', number: number, port: number) => {
    const url = new URL(postgres.url);
    url.port = String(databaseProxies[kind].port);
    return createPart({
      name: `${kind}-${number}`,
      url: `http://127.0.0.1:${port}`,
      // This worker kills itself at a step that FAIL_POINT names. Otherwise it is the product's
      // worker.
      script: kind === 'gateway' ? 'gateway/main.js' : 'test/faults/worker.js',
      productScript: kind === 'gateway' ? 'gateway/main.js' : 'workers/main.js',
      env: {
        ...env,
        DATABASE_URL: url.href,
        KAFKA_BROKERS: cluster.through(kind).brokers,
        [kind === 'gateway' ? 'PORT' : 'WORKER_PORT']: String(port),
      },
    });
  };
  const gateways = [part('gateway', 1, ports[0]!), part('gateway', 2, ports[1]!)];
  const workers = [part('worker', 1, ports[2]!), part('worker', 2, ports[3]!)];
  const parts = [...gateways, ...workers];

  const settings = { ...shared, DATABASE_URL: postgres.url, KAFKA_BROKERS: cluster.brokers };
  const setUp = sluiceWith(settings, options.release);
  await setUp('migrate');
  // Fewer partitions than usual: after a kill a broker recovers the log of each partition.
  await setUp('topics', 'create', '--partitions', '6', '--tenant-partitions', '3');
  const { tenants, receivers } = await createTenants(setUp, startReceivers);
  for (const each of parts) each.start({}, options.release);
  await Promise.all(parts.map((each) => each.ready()));
  const pool = createPool({
    connectionString: postgres.url,
    max: 4,
    applicationName: 'sluice-faults',
    logger,
  });
  const log = createKafkaLog({ brokers: cluster.brokers.split(','), clientId: 'sluice-faults', logger });
  return {
    log: 'kafka',
    topicPrefix,
    tenants,
    gateways,
    workers,
    parts,
    postgres,
    databaseUrl: async () => postgres.url,
    pool: async () => pool,
    eventLog: async () => log,
    receivers,
    cluster,
    databaseProxies,
    sluice: sluiceWith(settings),
    async stop() {
      await Promise.all(parts.map((each) => each.terminate()));
      await receivers.close();
      await log.close();
      await pool.end();
      await Promise.all([databaseProxies.gateway.close(), databaseProxies.worker.close()]);
      await Promise.all([postgres.stop(), cluster.stop()]);
    },
  };
}
