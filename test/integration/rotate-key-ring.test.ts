import { pino } from 'pino';
import { afterAll, expect, it } from 'vitest';
import { startAdmin } from '../../admin/start.ts';
import { listPositions } from '../../cli/sql/log-positions.ts';
import { startGateway } from '../../gateway/start.ts';
import { createHealth } from '../../shared/http/health.ts';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { parseAllowRules } from '../../shared/webhooks/addresses.ts';
import { startWorkers } from '../../workers/start.ts';
import { startWebhooks } from '../../workers/webhooks/start.ts';
import { runSluice } from '../support/command.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench } from '../support/webhooks.ts';

const OLD = `old:${generateKeySpec().split(':')[1]}`;
const NEW = `new:${generateKeySpec().split(':')[1]}`;
const HOUR_MS = 3_600_000;

const { pool, url } = await createTestDatabase();
const { clock, nextId } = createWebhookBench(pool);
const logger = pino({ level: 'silent' });
const log = createEmbeddedLog({ pool, clock, logger });
const allow = parseAllowRules('127.0.0.0/8');
const receiver = await startReceiver();
const env = { DATABASE_URL: url, SLUICE_TOPIC_PREFIX: 'r.', SLUICE_WEBHOOK_ALLOW: '127.0.0.0/8' };
const shared = {
  pool,
  log,
  clock,
  nextId,
  logger,
  allow,
  topicPrefix: 'sluice.',
  endpointsMax: 20,
  host: '127.0.0.1',
  port: 0,
  drainDelayMs: 0,
};

interface Part {
  readonly port: number;
  stop(): Promise<void>;
}

/** Starts each part with a key ring; the part keeps that ring until it is restarted. */
const START: Readonly<Record<string, (spec: string) => Promise<Part>>> = {
  gateway: async (spec) => {
    const gateway = await startGateway({
      ...shared,
      keyRing: createKeyRing(spec),
      topicPrefix: 'r.',
      publishDeadlineMs: 5000,
      publishBufferBytesMax: 64 * 1024 * 1024,
    });
    // Waits until the gateway is ready, as a load balancer does before it sends requests.
    await waitFor(() => gateway.health.readyReasons().length === 0, { timeoutMs: 10_000, what: 'readiness' });
    return gateway;
  },
  admin: (spec) => startAdmin({ ...shared, keyRing: createKeyRing(spec) }),
  workers: async (spec) => {
    const health = createHealth();
    const workers = startWorkers({
      ...shared,
      health,
      prefix: 'r.',
      credentialsTtlMs: 24 * HOUR_MS,
      topicRetentionMs: 168 * HOUR_MS,
    });
    const webhooks = startWebhooks({ ...shared, health, keyRing: createKeyRing(spec) });
    return {
      port: 0,
      async stop() {
        await Promise.all([workers.close(), webhooks.close()]);
      },
    };
  },
};
const parts = new Map<string, Part>();

afterAll(async () => {
  for (const part of parts.values()) await part.stop();
  await log.close();
  await receiver.close();
});

async function restart(name: string, spec: string): Promise<void> {
  const kind = name.replace(/ .*/, '');
  await parts.get(name)?.stop();
  parts.set(name, await START[kind]!(spec));
}

async function sluice(args: string, spec: string) {
  const { code, stdout, stderr } = await runSluice(`${args} --json`, {
    ...env,
    SLUICE_CREDENTIALS_KEYS: spec,
  });
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return JSON.parse(stdout);
}

/**
 * Resolves with whether everything is stored, as `sluice lag --kind credentials` would report. With
 * these settings the command itself would read Kafka.
 */
async function everythingStored(): Promise<boolean> {
  const reader = log.createReader();
  const ends = (await reader.bounds(['r.credentials'])).get('r.credentials')!;
  await reader.close();
  const positions = await listPositions(pool, ['r.credentials']);
  return [...ends].every(
    ([partition, { latest }]) =>
      (positions.find((row) => row.partition === partition)?.nextOffset ?? 0n) >= latest,
  );
}

it('rotating the key ring under load refuses, loses and damages no submission and fails no webhook', async () => {
  const specs = topicSpecs('r.', { partitions: 2, replicas: 1 });
  await log.createTopics(specs);
  await registerTopics(pool, specs, { tenantPartitions: 1, clock });
  await sluice('tenants create acme --rate none', OLD);
  const key = await sluice('keys create --tenant acme --scope *', OLD);
  const headers = {
    'service-api-id': key.apiKeyId,
    'service-api-secret': key.apiKeySecret,
    'content-type': 'application/json',
  };
  const names = ['gateway 1', 'admin', 'workers', 'gateway 2'];
  for (const name of names) await restart(name, OLD);
  await sluice(`webhooks create --tenant acme --url ${receiver.url}`, OLD);
  let submitted = 0;

  /**
   * Submits credentials to each gateway, then checks that everything stored can be read and that
   * webhooks arrived.
   */
  async function works(): Promise<void> {
    for (const gateway of ['gateway 1', 'gateway 2']) {
      submitted += 1;
      const path = `/conversation/v1/conversations/CHAT${submitted}/authenticate`;
      const answer = await fetch(`http://127.0.0.1:${parts.get(gateway)!.port}${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ customerExternalId: 'c', token: `token-${submitted}` }),
      });
      expect(answer.status).toBe(204);
    }
    for (let i = 1; i <= submitted; i++) {
      const path = `/internal/v1/conversations/CHAT${i}/credentials`;
      const read = await waitFor(
        async () => {
          const answer = await fetch(`http://127.0.0.1:${parts.get('admin')!.port}${path}`, { headers });
          if (answer.status === 404) return undefined;
          return { status: answer.status, json: (await answer.json()) as { auth?: object } };
        },
        { timeoutMs: 10_000, what: `submission ${i} to be stored` },
      );
      expect([i, read.status, read.json.auth]).toEqual([i, 200, { token: `token-${i}` }]);
    }
    const signalled = () => new Set(receiver.requests.map(({ json }) => json.data.conversationId)).size;
    await waitFor(() => signalled() === submitted, { timeoutMs: 10_000, what: 'the webhooks' });
  }

  await works();
  for (const ring of [`${OLD},${NEW}`, `${NEW},${OLD}`]) {
    for (const name of names) {
      await restart(name, ring);
      await works();
    }
  }
  await waitFor(everythingStored, { timeoutMs: 10_000, what: 'everything to be stored' });
  const report = await sluice('credentials reencrypt', `${NEW},${OLD}`);
  expect(report).toMatchObject({ webhookSecrets: 1, unreadable: [], unused: ['old'] });
  expect(report.credentials).toBeGreaterThan(submitted / 2);
  await works();
  for (const name of names) {
    await restart(name, NEW);
    await works();
  }
  expect((await pool.query('select distinct key_id from credentials')).rows).toEqual([{ key_id: 'new' }]);
}, 60_000);
