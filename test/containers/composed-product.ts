import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { createPool } from '../../shared/postgres/pool.ts';
import type { Product } from '../support/product.ts';
import { ROOT } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';

/** The services that run permanently, in the order in which a test may kill them. */
export const SERVICES = ['gateway', 'worker', 'admin', 'postgres', 'kafka'] as const;

const HEALTHY_TIMEOUT_MS = 90_000;
const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;
const logger = pino({ level: 'silent' });

/**
 * Uses the services that `docker compose up --wait` has started, with a new key of the tenant.
 * `stop` leaves the services running.
 */
export async function useComposedProduct(tenant: string): Promise<Product> {
  const env = stackSettings();
  const key = await sluice('keys', 'create', '--tenant', tenant, '--scope', '*');
  const pool = createPool({
    connectionString: `postgres://sluice:${env.STACK_POSTGRES_PASSWORD}@127.0.0.1:${env.STACK_POSTGRES_PORT}/sluice`,
    max: 5,
    applicationName: 'sluice-test',
    logger,
  });
  const brokers = [`127.0.0.1:${env.STACK_KAFKA_PORT}`];
  const log = createKafkaLog({ brokers, clientId: 'sluice-test', logger });
  return {
    baseUrl: `http://127.0.0.1:${env.STACK_GATEWAY_PORT}`,
    adminUrl: `http://127.0.0.1:${env.STACK_ADMIN_PORT}`,
    ...key,
    topicPrefix: 'sluice.',
    receiverHost: await addressForContainers(),
    pool,
    log,
    parts: SERVICES,
    async killAndRestart(service) {
      const id = (await compose('ps', '--quiet', service)).trim();
      await docker('kill', '--signal', 'KILL', id);
      await docker('start', id);
      await waitUntilHealthy(id, service);
    },
    output: () =>
      execFileSync('docker', ['compose', 'logs', '--no-color'], {
        cwd: ROOT,
        encoding: 'utf8',
        maxBuffer: OUTPUT_BYTES_MAX,
      }),
    async stop() {
      await log.close();
      await pool.end();
    },
  };
}

/** Runs `sluice` in a container, as users do. Resolves with the JSON that it prints. */
export async function sluice(...args: string[]) {
  return JSON.parse(await compose('run', '--rm', 'cli', ...args, '--json'));
}

/** Runs `docker compose` on the services under test. Resolves with its standard output. */
export async function compose(...args: string[]): Promise<string> {
  return await docker('compose', ...args);
}

export async function docker(...args: string[]): Promise<string> {
  return (await promisify(execFile)('docker', args, { cwd: ROOT, maxBuffer: OUTPUT_BYTES_MAX })).stdout;
}

/**
 * Resolves with the test machine's address as seen from containers: the gateway of their network.
 */
async function addressForContainers(): Promise<string> {
  const id = (await compose('ps', '--quiet', 'worker')).trim();
  const format = '{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}';
  return (await docker('inspect', '--format', format, id)).trim();
}

/**
 * Waits until the container is healthy. Checks from before the kill do not count: a restarted
 * container is `starting` until its first check.
 */
async function waitUntilHealthy(id: string, service: string): Promise<void> {
  await waitFor(
    async () => (await docker('inspect', '--format', '{{.State.Health.Status}}', id)).trim() === 'healthy',
    { timeoutMs: HEALTHY_TIMEOUT_MS, what: `${service} to be healthy again` },
  );
}

function stackSettings() {
  const name = (setting: string): string => {
    const value = process.env[setting];
    if (!value) throw new Error(`${setting} is not set: these tests are run by .ci/containers`);
    return value;
  };
  return {
    STACK_POSTGRES_PASSWORD: name('STACK_POSTGRES_PASSWORD'),
    STACK_POSTGRES_PORT: name('STACK_POSTGRES_PORT'),
    STACK_KAFKA_PORT: name('STACK_KAFKA_PORT'),
    STACK_GATEWAY_PORT: name('STACK_GATEWAY_PORT'),
    STACK_ADMIN_PORT: name('STACK_ADMIN_PORT'),
  };
}
